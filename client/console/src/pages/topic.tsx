// SPDX-License-Identifier: Apache-2.0
//
// One topic: its counts, its forecast, its subscriptions and its settings.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { ChangeDialog } from "../change";
import { commandLine } from "../command";
import { CreateSubscriptionDialog, CreateTopicDialog } from "../create_dialogs";
import { DeleteTopicDialog } from "../delete_dialogs";
import { ForecastPanel } from "../forecast";
import { TopicHistory } from "../history";
import { forEachFew, useLoaded } from "../poll";
import { href } from "../route";
import { ScheduleDialog } from "../schedule_dialog";
import { topicSettings } from "../settings";
import { SettingsDialog, useSettingFacts } from "../settings_form";
import { Streams } from "../streams";
import { bytesText, countText } from "../text";
import type { Subscription, Topic } from "../types";
import {
  Act, Badge, CommandBox, Count, Empty, Facts, Missing, Pager, Problem, Shown, Table, Tile, TopicLink, Waiting, When, countOrder, isMissing, rowsOf,
  timeOrder, usePages, type Column,
} from "../ui";
import { deadLetterTopicOf } from "./topics";

export function TopicPage({ params }: { params: Record<string, string> }): JSX.Element {
  const name = params.name ?? "";
  const { about } = useApp();
  const [dialog, setDialog] = useState<"pause" | "settings" | "schedule" | "delete" | "create">();
  const loaded = useLoaded(`topic ${name}`, async () => (await call("Admin/GetTopic", { name })).topic, 3_000);
  const topic = loaded.value;
  const close = (changed: boolean) => {
    setDialog(undefined);
    if (changed) loaded.reload();
  };
  const facts = useSettingFacts(topicSettings, topic?.settings, name);
  return (
    <>
      <div class="head">
        <h1><Shown text={name} /></h1>
        {topic && (topic.settings.paused ? <Badge text="paused" tone="warn" /> : <Badge text="active" tone="good" />)}
        <span class="grow" />
        {topic && (
          <div class="buttons">
            <Act primary onClick={() => setDialog("schedule")}>Schedule a message</Act>
            <Act onClick={() => setDialog("pause")}>{topic.settings.paused ? "Resume" : "Pause"}</Act>
            <Act onClick={() => setDialog("settings")}>Edit settings</Act>
            <Act onClick={() => setDialog("delete")}>Delete</Act>
            <a class="button" href={href("messages", { topic: name })}>Messages</a>
            <a class="button" href={href("dead-letters", { topic: name })}>Dead letters</a>
            {!about.read_only && <a class="button" href={href("bulk", { topic: name })}>Change many</a>}
          </div>
        )}
      </div>
      <Problem error={isMissing(loaded.error) ? undefined : loaded.error} retry={loaded.reload} />
      <Missing error={loaded.error} name={name}>
        <span>It was never used, or it is deleted. The first message or subscriber that names it creates it.</span>
        <Act onClick={() => setDialog("create")}>Create it</Act>
        <a href={href("topics")}>All topics</a>
      </Missing>
      {topic === undefined || isMissing(loaded.error) ? !loaded.error && <Waiting /> : (
        <>
          <div class="tiles">
            <Tile label="Pending" value={<Count value={topic.counts?.pending} />} note={bytesText(topic.counts?.pending_bytes)} />
            <Tile label="Due" value={<Count value={topic.counts?.due} />} note="waiting or in flight" tone={topic.settings.paused && topic.counts?.due !== "0" ? "warn" : ""} />
            <Tile label="Rate" value={topic.settings.rate ? `${topic.settings.rate.messages_per_second}/s` : "no limit"} note="to each subscription" />
            <Tile label="Dead letters" value={<span style={{ fontSize: "1rem" }}><TopicLink name={deadLetterTopicOf(topic)} /></span>} note="go to this topic" />
          </div>
          <ForecastPanel topic={name} due={topic.counts?.due} />
          <TopicHistory topic={name} />
          <Subscriptions topic={topic} />
          <Streams topic={name} />
          <section class="panel">
            <div class="title"><h2>Settings</h2></div>
            <Facts facts={facts} />
          </section>
        </>
      )}
      {dialog === "pause" && topic && <PauseTopic topic={topic} onClose={close} />}
      {dialog === "schedule" && <ScheduleDialog topic={name} onClose={close} />}
      {dialog === "create" && <CreateTopicDialog name={name} onClose={close} />}
      {dialog === "delete" && topic && <DeleteTopicDialog topic={topic} onClose={close} />}
      {dialog === "settings" && topic && (
        <SettingsDialog title={`Settings of ${name}`} name={name} groups={topicSettings} settings={topic.settings} onClose={close}
          note={<p>They apply to requests that arrive from then on. The topic has {countText(topic.counts?.pending)} pending messages.</p>}
          commandOf={(change) => commandLine(about.options, "topic update", [name], change.options)}
          update={(change) => call("Admin/UpdateTopic", { topic: { name, settings: change.settings }, update_mask: change.mask })} />
      )}
    </>
  );
}

function PauseTopic({ topic, onClose }: { topic: Topic; onClose: (changed: boolean) => void }): JSX.Element {
  const { about } = useApp();
  const paused = topic.settings.paused === true;
  const verb = paused ? "resume" : "pause";
  return (
    <ChangeDialog onClose={onClose} change={{
      title: paused ? "Resume deliveries of the topic" : "Pause deliveries of the topic",
      verb: paused ? "Resume" : "Pause",
      touches: paused
        ? <p>All subscriptions of <b><Shown text={topic.name} /></b> deliver again. {countText(topic.counts?.due)} messages are due.</p>
        : <p>No subscription of <b><Shown text={topic.name} /></b> delivers until you resume it. The topic still accepts messages, and messages
            in flight can be settled. {countText(topic.counts?.pending)} messages are pending, {countText(topic.counts?.due)} of them due.</p>,
      command: commandLine(about.options, `topic ${verb}`, [topic.name]),
      run: async () => {
        await call(paused ? "Admin/ResumeTopic" : "Admin/PauseTopic", { name: topic.name });
        return <p>{paused ? "The topic delivers again." : "The topic is paused."}</p>;
      },
    }} />
  );
}

const pageSize = 50;

const columns: Column<Subscription>[] = [
  { title: "Subscription", wide: true, by: (one) => one.name, cell: (one) => <a href={href("subscription", { topic: one.topic, name: one.name })}><Shown text={one.name} /></a> },
  { title: "State", cell: (one) => <SubscriptionState subscription={one} /> },
  { title: "Backlog", right: true, by: (one) => countOrder(one.backlog?.messages), cell: (one) => <Count value={one.backlog?.messages} /> },
  { title: "Ready", right: true, by: (one) => countOrder(one.counts?.ready), cell: (one) => <Count value={one.counts?.ready} /> },
  { title: "In flight", right: true, by: (one) => countOrder(one.counts?.in_flight), cell: (one) => <Count value={one.counts?.in_flight} /> },
  { title: "Retry", right: true, by: (one) => countOrder(one.counts?.delayed), cell: (one) => <Count value={one.counts?.delayed} /> },
  { title: "Blocked", right: true, by: (one) => countOrder(one.counts?.blocked), cell: (one) => <Count value={one.counts?.blocked} /> },
  { title: "Oldest", by: (one) => timeOrder(one.backlog?.oldest_due_time), cell: (one) => <When time={one.backlog?.oldest_due_time} /> },
  { title: "Streams", right: true, by: (one) => countOrder(one.counts?.streams), cell: (one) => <Count value={one.counts?.streams} /> },
  { title: "Delivered", right: true, by: (one) => countOrder(one.counts?.delivered), cell: (one) => <Count value={one.counts?.delivered} /> },
  { title: "Acked", right: true, by: (one) => countOrder(one.counts?.acked), cell: (one) => <Count value={one.counts?.acked} /> },
];

export function SubscriptionState({ subscription }: { subscription: Subscription }): JSX.Element {
  const { counts, settings } = subscription;
  if (settings.paused) return <Badge text="paused" tone="warn" />;
  return (
    <>
      {counts?.slowed && <Badge text="slowed: too many fail" tone="bad" />}
      {counts?.behind && <Badge text="backlog on disk" tone="warn" />}
      {counts?.streams === "0" ? <Badge text="no subscriber" tone={counts.behind ? "warn" : undefined} />
        : !counts?.slowed && !counts?.behind && <Badge text="active" tone="good" />}
    </>
  );
}

function Subscriptions({ topic }: { topic: Topic }): JSX.Element {
  const { about } = useApp();
  const [creating, setCreating] = useState(false);
  const pages = usePages(topic.name);
  const list = useLoaded(`subscriptions ${topic.name} ${pages.token}`, async () => {
    const page = await call("Admin/ListSubscriptions", { topic: topic.name, page_size: rowsOf(pageSize), page_token: pages.token });
    const subscriptions = await forEachFew(page.subscriptions, async (one) => {
      try {
        return (await call("Admin/GetSubscription", { topic: one.topic, name: one.name })).subscription;
      } catch {
        return one; // Deleted meanwhile.
      }
    });
    return { subscriptions, next: page.next_page_token };
  }, 3_000);
  useEffect(() => { if (list.value) pages.setNext(list.value.next); }, [list.value]);
  return (
    <section class="panel">
      <div class="title"><h2>Subscriptions</h2><span class="quiet">backlog: due and not settled; ready: those of it in memory</span><span class="grow" />
        <Act onClick={() => setCreating(true)}>Create a subscription</Act></div>
      <Problem error={list.error} retry={list.reload} />
      {list.value === undefined ? !list.error && <Waiting /> : list.value.subscriptions.length === 0
        ? <Empty title="No subscription yet"><span>Messages wait for the first subscriber:</span>
            <CommandBox command={commandLine(about.options, "subscribe", [topic.name])} /></Empty>
        : <Table caption="Subscriptions" columns={columns} rows={list.value.subscriptions} keyOf={(one) => one.name} />}
      <Pager pages={pages} shown={list.value?.subscriptions.length ?? 0} />
      {creating && <CreateSubscriptionDialog topic={topic.name} onClose={(changed) => { setCreating(false); if (changed) list.reload(); }} />}
    </section>
  );
}
