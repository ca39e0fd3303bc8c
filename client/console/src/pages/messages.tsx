// SPDX-License-Identifier: Apache-2.0
//
// The search for pending messages.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { commandLine, filterOptions } from "../command";
import { FilterFields, filterOf, type Params } from "../filter";
import { CancelDialog, RescheduleDialog } from "../message_changes";
import { useLoaded, useSettled } from "../poll";
import { go, href, replace } from "../route";
import { ScheduleDialog } from "../schedule_dialog";
import { bytesOf, bytesText, utf8Of, wordOf } from "../text";
import { TopicField } from "../topic_field";
import type { Message } from "../types";
import {
  Act, CommandBox, Empty, LabelList, MessageLink, Missing, Pager, Problem, Shown, StateBadge, Table, TextField, Waiting, When, countOrder, isMissing,
  rowsOf, timeOrder, usePages, type Column,
} from "../ui";

const pageSize = 50;
const payloadPageSize = 25;
const states = ["STATE_SCHEDULED", "STATE_DUE", "STATE_IN_FLIGHT"];
const previewMax = 160;

// The beginning of a payload, as text if it is text.
export function preview(message: Message): string {
  const bytes = bytesOf(message.payload);
  const text = utf8Of(bytes);
  if (text === null) return `${[...bytes.subarray(0, 24)].map((one) => one.toString(16).padStart(2, "0")).join(" ")}${bytes.length > 24 ? " …" : ""}`;
  return text.length > previewMax ? `${text.slice(0, previewMax)}…` : text;
}

export function MessagesPage({ params: typed }: { params: Params }): JSX.Element {
  const params = useSettled(typed);
  const { about } = useApp();
  const [dialog, setDialog] = useState<{ message: Message; move: boolean }>();
  const [scheduling, setScheduling] = useState(false);
  const topic = params.topic ?? "";
  const full = params.view === "full";
  const chosen = (params.states ?? "").split(",").filter((one) => one !== "");
  const { filter, refusal } = filterOf(params);
  const set = (change: Params) => replace("messages", { ...typed, ...change });
  const key = JSON.stringify([topic, full, chosen, filter]);
  const pages = usePages(key);
  const list = useLoaded(`${key} ${pages.token}`, async () => (topic === "" || refusal !== undefined ? null : call("Messages/List", {
    topic, ...filter, states: chosen, page_size: rowsOf(full ? payloadPageSize : pageSize), page_token: pages.token,
    ...(full ? { view: "MESSAGE_VIEW_FULL" } : {}),
  })));
  useEffect(() => { if (list.value) pages.setNext(list.value.next_page_token); }, [list.value]);
  const close = (changed: boolean) => {
    setDialog(undefined);
    setScheduling(false);
    if (changed) list.reload();
  };
  const toggle = (state: string) => set({ states: (chosen.includes(state) ? chosen.filter((one) => one !== state) : [...chosen, state]).join(",") });
  const bulk = { topic, prefix: params.prefix, labels: params.labels, from: params.from, to: params.to };
  return (
    <>
      <div class="head">
        <h1>Messages</h1><span class="grow" />
        {topic !== "" && !about.read_only && <a class="button" href={href("bulk", bulk)}>Change all that match</a>}
        <Act primary onClick={() => setScheduling(true)}>Schedule a message</Act>
      </div>
      <div class="columns">
        <section class="panel">
          <div class="title"><h2>Pending messages of a topic</h2></div>
          <div class="form">
            <TopicField value={typed.topic ?? ""} onInput={(value) => set({ topic: value })} />
            <FilterFields params={typed} set={set} />
            <fieldset>
              <legend>State</legend>
              <div class="checks">
                {states.map((state) => (
                  <label key={state}><input type="checkbox" checked={(typed.states ?? "").split(",").includes(state)} onChange={() => toggle(state)} /> {wordOf(state)}</label>
                ))}
              </div>
            </fieldset>
            <fieldset>
              <legend>Columns</legend>
              <div class="checks">
                <label><input type="checkbox" checked={typed.view === "full"} onChange={() => set({ view: typed.view === "full" ? "" : "full" })} /> show payloads</label>
              </div>
            </fieldset>
          </div>
          {refusal !== undefined && <div class="notice" role="status"><p>{refusal}</p></div>}
        </section>
        <FindOne topic={topic} />
      </div>
      <Problem error={isMissing(list.error) ? undefined : list.error} retry={list.reload} />
      <Missing error={list.error} name={topic}><span>The first message creates it.</span><a href={href("topics")}>All topics</a></Missing>
      {(list.error === undefined || (list.value !== undefined && !isMissing(list.error))) && <div class="panel">
        {list.value === undefined ? <Waiting /> : list.value === null
          ? refusal === undefined ? <ChooseTopic /> : <Empty title="The filter cannot be read" />
          : list.value.messages.length === 0
            ? list.value.next_page_token !== ""
              ? <Empty title="No match on this page"><span>The server has looked through a part of the messages. Go to the next page.</span></Empty>
              : <Empty title="No pending message matches"><span>Ended messages are not listed: find them by id or key. To schedule one:</span>
                  <CommandBox command={commandLine(about.options, "schedule", [topic, "hello"], [["--in", "1m"]])} /></Empty>
            : <Table caption="Messages" rows={list.value.messages} keyOf={(one) => one.id} columns={columnsOf(full, setDialog)} />}
        <Pager pages={pages} shown={list.value?.messages.length ?? 0} />
        {list.value && list.value.messages.length > 0 && (
          <>
            <div class="label">The same on the command line</div>
            <CommandBox command={commandLine(about.options, "list", [topic], [
              ...filterOptions(filter), ...chosen.map((state): [string, string] => ["--state", wordOf(state).replace(" ", "-")]),
            ])} />
          </>
        )}
      </div>}
      {scheduling && <ScheduleDialog topic={topic} onClose={close} />}
      {dialog && (dialog.move ? <RescheduleDialog message={dialog.message} onClose={close} /> : <CancelDialog message={dialog.message} onClose={close} />)}
    </>
  );
}

function columnsOf(full: boolean, open: (dialog: { message: Message; move: boolean }) => void): Column<Message>[] {
  const columns: Column<Message>[] = [
    { title: "Due", by: (one) => timeOrder(one.deliver_time), cell: (one) => <When time={one.deliver_time} /> },
    { title: "State", by: (one) => one.state, cell: (one) => <StateBadge state={one.state} /> },
    { title: "Id", cell: (one) => <MessageLink id={one.id} /> },
    { title: "Key", wide: true, by: (one) => one.key, cell: (one) => (one.key === "" ? "" : <Shown text={one.key} max={120} />) },
    { title: "Labels", wide: true, cell: (one) => <LabelList labels={one.labels} short /> },
    { title: "Attempts", right: true, by: (one) => one.attempts, cell: (one) => one.attempts },
    { title: "Bytes", right: true, by: (one) => countOrder(one.payload_bytes), cell: (one) => <span class="number">{bytesText(one.payload_bytes)}</span> },
  ];
  if (full) columns.push({ title: "Payload", wide: true, cell: (one) => <Shown text={preview(one)} /> });
  columns.push({
    title: "Change",
    cell: (message) => (
      <div class="buttons">
        <Act label={`Move ${message.id}`} onClick={() => open({ message, move: true })}>Move</Act>
        <Act label={`Cancel ${message.id}`} onClick={() => open({ message, move: false })}>Cancel</Act>
      </div>
    ),
  });
  return columns;
}

// The first topics, to choose one of them.
function ChooseTopic(): JSX.Element {
  const topics = useLoaded("first topics", () => call("Admin/ListTopics", { page_size: 30 }));
  const names = topics.value?.topics.map((one) => one.name) ?? [];
  return (
    <Empty title={names.length > 0 ? "Which topic?" : topics.value === undefined ? "Name a topic" : "No topics yet: the first message creates one"}>
      <span class="buttons">{names.map((name) => <a key={name} class="button" href={href("messages", { topic: name })}><Shown text={name} max={60} /></a>)}</span>
      <a href={href("topics")}>All topics</a>
    </Empty>
  );
}

// Finds a message by its id or key, also one that has ended.
function FindOne({ topic }: { topic: string }): JSX.Element {
  const [name, setName] = useState("");
  const [wanted, setWanted] = useState("");
  const found = useLoaded(`find ${topic} ${wanted}`, async () => {
    if (wanted === "") return null;
    const isId = /^[0-9a-z]{26}$/.test(wanted);
    const answer = await call("Messages/Get", isId ? { message_id: wanted } : { key: { topic, key: wanted } });
    go("message", { id: answer.message.id });
    return answer;
  });
  return (
    <section class="panel">
      <div class="title"><h2>One message</h2><span class="quiet">also if it has ended</span></div>
      <form class="form" onSubmit={(event) => { event.preventDefault(); setWanted(name.trim()); }}>
        <TextField label="Id, or key in that topic" value={name} onInput={setName} />
        <div class="field"><span class="label">&nbsp;</span><button type="submit" disabled={name.trim() === ""}>Open</button></div>
      </form>
      <Problem error={wanted === "" ? undefined : found.error} />
    </section>
  );
}
