// SPDX-License-Identifier: Apache-2.0
//
// Dead letters of a topic: a dead-letter topic is a topic like any other, so its messages are listed as such.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { BulkDialog, type Bulk } from "../bulk_dialog";
import { commandLine } from "../command";
import { FilterFields, filterOf, type Params } from "../filter";
import { CancelDialog, RescheduleDialog } from "../message_changes";
import { forEachFew, useLoaded, useSettled } from "../poll";
import { href, replace } from "../route";
import { bytesText, wordOf } from "../text";
import { TopicField } from "../topic_field";
import type { Message } from "../types";
import {
  Act, CommandBox, Count, Empty, LabelList, MessageLink, Missing, Pager, Problem, Shown, Table, TopicLink, Waiting, When, countOrder, isMissing, rowsOf,
  timeOrder, usePages, type Column,
} from "../ui";
import { deadLetterTopicOf } from "./topics";

const pageSize = 50;
const scannedMax = 1_000;

// The dead-letter topics of a topic: its own, and those that its subscriptions name.
async function deadLetterTopicsOf(name: string): Promise<string[]> {
  const [topic, readers] = await Promise.all([
    call("Admin/GetTopic", { name }), call("Admin/ListSubscriptions", { topic: name, page_size: scannedMax }),
  ]);
  const own = readers.subscriptions.map((one) => one.settings.dead_letter_topic ?? "").filter((one) => one !== "");
  return [...new Set([deadLetterTopicOf(topic.topic), ...own])];
}

export function DeadLettersPage({ params: typed }: { params: Params }): JSX.Element {
  const params = useSettled(typed);
  const topic = params.topic ?? "";
  const set = (change: Params) => replace("dead-letters", { ...typed, ...change });
  const topics = useLoaded(`dlq of ${topic}`, () => (topic === "" ? Promise.resolve([]) : deadLetterTopicsOf(topic)));
  const chosen = params.dlq || topics.value?.[0] || "";
  return (
    <>
      <div class="head"><h1>Dead letters</h1></div>
      <section class="panel">
        <div class="form">
          <TopicField label="Topic that they came from" value={typed.topic ?? ""} onInput={(value) => set({ topic: value, dlq: "" })} />
          {topic !== "" && <FilterFields params={typed} set={set} />}
        </div>
        {(topics.value?.length ?? 0) > 1 && (
          <p class="buttons" role="group" aria-label="Dead-letter topic">
            {topics.value?.map((one) => (
              <button key={one} type="button" aria-pressed={one === chosen} onClick={() => set({ dlq: one })}><Shown text={one} /></button>
            ))}
          </p>
        )}
      </section>
      <Problem error={isMissing(topics.error) ? undefined : topics.error} retry={topics.reload} />
      {topic === "" ? <AllDeadLetters /> : isMissing(topics.error)
        ? <Missing error={topics.error} name={topic}><a href={href("dead-letters")}>All dead letters</a></Missing>
        : chosen !== "" && <DeadLetterList topic={chosen} params={params} />}
    </>
  );
}

// The dead-letter topics of the first topics that hold messages.
function AllDeadLetters(): JSX.Element {
  const found = useLoaded("all dead letters", async () => {
    const { topics } = await call("Admin/ListTopics", { page_size: scannedMax });
    const names = new Set(topics.map((one) => one.name));
    const origins = topics.filter((one) => names.has(deadLetterTopicOf(one)));
    const counted = await forEachFew(origins.slice(0, 200), async (one) => {
      const dead = await call("Admin/GetTopic", { name: deadLetterTopicOf(one) }).catch(() => null);
      return { origin: one.name, dead: deadLetterTopicOf(one), counts: dead?.topic.counts };
    });
    return counted.filter((one) => one.counts !== undefined && one.counts.pending !== "0");
  }, 5_000);
  return (
    <div class="panel">
      <Problem error={found.error} retry={found.reload} />
      {found.value === undefined ? !found.error && <Waiting /> : found.value.length === 0
        ? <Empty title="No dead letters"><span>A message becomes a dead letter when a subscriber rejects it, or after the attempts that its subscription
            allows: set “Failed attempts at most” in the settings of a subscription.</span></Empty>
        : <Table caption="Topics with dead letters" rows={found.value} keyOf={(one) => one.origin} columns={[
            { title: "Topic", by: (one) => one.origin, cell: (one) => <a href={href("dead-letters", { topic: one.origin })}><Shown text={one.origin} /></a> },
            { title: "Dead letters", right: true, by: (one) => countOrder(one.counts?.pending), cell: (one) => <Count value={one.counts?.pending} /> },
            { title: "Bytes", right: true, cell: (one) => bytesText(one.counts?.pending_bytes) },
            { title: "In", cell: (one) => <TopicLink name={one.dead} /> },
          ]} />}
    </div>
  );
}

function DeadLetterList({ topic, params }: { topic: string; params: Params }): JSX.Element {
  const { about } = useApp();
  const [bulk, setBulk] = useState<Bulk>();
  const [dialog, setDialog] = useState<{ message: Message; move: boolean }>();
  const { filter, refusal } = filterOf(params);
  const key = JSON.stringify([topic, filter]);
  const pages = usePages(key);
  const list = useLoaded(`${key} ${pages.token}`, async () => {
    try {
      return await call("Messages/List", { topic, ...filter, page_size: rowsOf(pageSize), page_token: pages.token });
    } catch (error) {
      if ((error as { reason?: string }).reason !== "TOPIC_NOT_FOUND") throw error;
      return { messages: [], next_page_token: "" }; // Created with the first dead letter.
    }
  }, 5_000);
  useEffect(() => { if (list.value) pages.setNext(list.value.next_page_token); }, [list.value]);
  const close = (changed: boolean) => {
    setBulk(undefined);
    setDialog(undefined);
    if (changed) list.reload();
  };
  const messages = list.value?.messages ?? [];
  const start = (action: Bulk["action"]) => setBulk({ topic, action, filter });
  const columns: Column<Message>[] = [
    { title: "Since", by: (one) => timeOrder(one.deliver_time), cell: (one) => <When time={one.deliver_time} /> },
    { title: "Id", cell: (one) => <MessageLink id={one.id} /> },
    { title: "From", wide: true, by: (one) => `${one.dead_letter?.topic} ${one.dead_letter?.subscription}`, cell: (one) => (one.dead_letter ? <><TopicLink name={one.dead_letter.topic} /> <span class="quiet"><Shown text={one.dead_letter.subscription} /></span></> : <span class="quiet">no dead letter</span>) },
    { title: "Why", wide: true, by: (one) => `${one.dead_letter?.reason} ${one.dead_letter?.reason_text}`, cell: (one) => <>{wordOf(one.dead_letter?.reason, "REASON_")}{one.dead_letter?.reason_text && <>: <Shown text={one.dead_letter.reason_text} max={160} /></>}</> },
    { title: "Attempts", right: true, by: (one) => one.dead_letter?.attempts ?? 0, cell: (one) => one.dead_letter?.attempts },
    { title: "Original key", by: (one) => one.dead_letter?.key ?? "", cell: (one) => (one.dead_letter?.key ? <Shown text={one.dead_letter.key} /> : "") },
    { title: "Labels", wide: true, cell: (one) => <LabelList labels={one.labels} short /> },
    { title: "Change", cell: (message) => (
      <div class="buttons">
        {message.dead_letter && (
          <Act label={`Redrive ${message.id}`} onClick={() => setBulk({ topic, action: "BULK_ACTION_REDRIVE", filter: { message_id: message.id } })}>Redrive</Act>
        )}
        <Act label={`Move ${message.id}`} onClick={() => setDialog({ message, move: true })}>Move</Act>
        <Act label={`Delete ${message.id}`} onClick={() => setDialog({ message, move: false })}>Delete</Act>
      </div>
    ) },
  ];
  return (
    <section class="panel">
      <div class="title">
        <h2>In <TopicLink name={topic} /></h2><span class="grow" />
        <div class="buttons">
          <Act disabled={messages.length === 0} onClick={() => start("BULK_ACTION_REDRIVE")}>Redrive all that match</Act>
          <Act disabled={messages.length === 0} onClick={() => start("BULK_ACTION_PURGE")}>Purge all that match</Act>
        </div>
      </div>
      {refusal !== undefined && <div class="notice"><p>{refusal}</p></div>}
      <Problem error={list.error} retry={list.reload} />
      {list.value === undefined ? !list.error && <Waiting /> : messages.length === 0
        ? <Empty title="No dead letters here"><CommandBox command={commandLine(about.options, "dlq list", [params.topic ?? topic])} /></Empty>
        : <Table caption="Dead letters" columns={columns} rows={messages} keyOf={(one) => one.id} />}
      <Pager pages={pages} shown={messages.length} />
      {bulk && <BulkDialog bulk={bulk} onClose={close} />}
      {dialog && (dialog.move ? <RescheduleDialog message={dialog.message} onClose={close} /> : <CancelDialog message={dialog.message} onClose={close} />)}
    </section>
  );
}
