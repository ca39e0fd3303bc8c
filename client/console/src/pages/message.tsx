// SPDX-License-Identifier: Apache-2.0
//
// One message: its timeline, its status in each subscription, its payload.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api";
import { useApp, useNow } from "../app";
import { BulkDialog } from "../bulk_dialog";
import { commandLine } from "../command";
import { CancelDialog, RescheduleDialog } from "../message_changes";
import { useLoaded } from "../poll";
import { href } from "../route";
import { bytesOf, bytesText, hexText, prettyJson, utf8Of, visibleText, wordOf } from "../text";
import { durationMs, localText, msOf, relativeText, spanText, utcText } from "../time";
import type { Attempt, Message, SubscriptionStatus, Timeline } from "../types";
import { Act, CommandBox, Empty, Facts, LabelList, MessageLink, Problem, Shown, StateBadge, Table, TopicLink, Waiting, When, type Column } from "../ui";

const endedStates = ["ACKED", "CANCELLED", "EXPIRED", "DEAD_LETTERED", "SKIPPED", "DROPPED"].map((one) => `STATE_${one}`);

export function MessagePage({ params }: { params: Record<string, string> }): JSX.Element {
  const id = params.id ?? "";
  const { about } = useApp();
  const [dialog, setDialog] = useState<"cancel" | "move" | "redrive">();
  const story = useLoaded(`explain ${id}`, () => call("Messages/Explain", { message_id: id }), 2_000);
  const etag = story.value?.message.etag ?? "";
  const full = useLoaded(`get ${id} ${etag}`, () => call("Messages/Get", { message_id: id, view: "MESSAGE_VIEW_FULL" }));
  const message = story.value?.message;
  const ended = message !== undefined && endedStates.includes(message.state);
  const close = (changed: boolean) => {
    setDialog(undefined);
    if (changed) story.reload();
  };
  return (
    <>
      <div class="head">
        <h1 class="id">{id}</h1>
        {message && <StateBadge state={message.state} />}
        {message && <span class="quiet">in <TopicLink name={message.topic} /></span>}
        <span class="grow" />
        {message && !ended && (
          <div class="buttons">
            {message.dead_letter && <Act onClick={() => setDialog("redrive")}>Redrive</Act>}
            <Act onClick={() => setDialog("move")}>Move</Act>
            <Act onClick={() => setDialog("cancel")}>Cancel</Act>
          </div>
        )}
      </div>
      <Problem error={story.error?.reason === "MESSAGE_NOT_FOUND" ? undefined : story.error} retry={story.reload} />
      {story.error?.reason === "MESSAGE_NOT_FOUND" && <div class="panel" role="alert"><Empty title="There is no such message"><span>It never existed, or it ended longer
        ago than the server remembers.</span><a href={href("messages")}>Search for messages</a></Empty></div>}
      {story.value === undefined || message === undefined ? !story.error && <Waiting /> : (
        <>
          <section class="panel"><Shown text={story.value.summary} /></section>
          <div class="columns">
            <section class="panel">
              <div class="title"><h2>Timeline</h2></div>
              <Story message={message} timeline={story.value.timeline} ended={ended} />
              <LatenessFacts lateness={story.value.lateness} delivered={story.value.timeline.first_dispatch_time !== undefined} />
            </section>
            <div>
              <section class="panel"><div class="title"><h2>Message</h2></div><MessageFacts message={message} /></section>
              {message.dead_letter && <Origin message={message} />}
            </div>
          </div>
          {story.value.subscriptions.length > 0 && (
            <section class="panel">
              <div class="title"><h2>Subscriptions</h2></div>
              <Table caption="Status in each subscription" columns={statusColumns(message.topic)} rows={story.value.subscriptions} keyOf={(one) => one.subscription} />
            </section>
          )}
          <Attempts title="Last attempts before it became a dead letter" attempts={message.dead_letter?.last_attempts ?? []} />
          {story.value.subscriptions.map((one) => (
            <Attempts key={one.subscription} title={story.value!.subscriptions.length > 1 ? `Last attempts of ${visibleText(one.subscription)}` : "Last attempts"}
              attempts={one.last_attempts} />
          ))}
          {ended
            ? <section class="panel"><Empty title="The message has ended"><span>The server no longer has its payload and attributes.</span></Empty></section>
            : <Payload message={full.value?.message} />}
          <Problem error={ended ? undefined : full.error} retry={full.reload} />
          <CommandBox command={commandLine(about.options, "explain", [id])} />
        </>
      )}
      {dialog === "redrive" && message && <BulkDialog bulk={{ topic: message.topic, action: "BULK_ACTION_REDRIVE", filter: { message_id: id } }} onClose={close} />}
      {dialog === "cancel" && message && <CancelDialog message={message} onClose={close} />}
      {dialog === "move" && message && <RescheduleDialog message={message} onClose={close} />}
    </>
  );
}

interface Event {
  ms: number;
  what: string;
  tone?: "now" | "bad";
}

// The events of a message in the order of time, with this moment among them while it is pending.
export function eventsOf(message: Message, timeline: Timeline, ended: boolean, now: number): Event[] {
  const first = timeline.attempts > 1 ? `first delivered (${timeline.attempts} attempts so far)` : "delivered";
  const bad = ["STATE_DEAD_LETTERED", "STATE_EXPIRED", "STATE_DROPPED"].includes(message.state);
  const known: [string | undefined, string, Event["tone"]?][] = [
    [timeline.accept_time, "accepted"],
    [timeline.update_time, "moved or replaced"],
    [timeline.due_time ?? message.deliver_time, "due"],
    [timeline.fire_time, "the timer fired"],
    [timeline.first_dispatch_time, first],
    [timeline.lease_end_time, "the lease ends"],
    [message.expire_time, "its time to live ends"],
    [timeline.end_time, `ended: ${wordOf(message.state)}`, bad ? "bad" : undefined],
  ];
  const events = known.flatMap(([time, what, tone]) => (time === undefined ? [] : [{ ms: msOf(time), what, tone }]));
  if (!ended) events.push({ ms: now, what: "now", tone: "now" });
  // The order of equal times is that of the list above.
  return events.sort((a, b) => a.ms - b.ms);
}

// The height of a gap grows with the order of magnitude of its length, so that milliseconds and years fit into one picture.
export function gapPx(ms: number): number {
  return Math.round(14 + 6 * Math.log10(1 + ms / 10));
}

function Story({ message, timeline, ended }: { message: Message; timeline: Timeline; ended: boolean }): JSX.Element {
  const now = useNow();
  const events = eventsOf(message, timeline, ended, now);
  return (
    <ol class="line">
      {events.map((event, index) => {
        const next = events[index + 1];
        const gap = next === undefined ? 0 : next.ms - event.ms;
        return (
          <li key={event.what} class={`${event.ms > now ? "future" : ""} ${event.tone ?? ""}`}>
            <span class="what">{event.what}</span>{" "}
            <time title={utcText(event.ms)}>{localText(event.ms, now)}</time>
            {event.tone !== "now" && <span class="quiet"> {relativeText(event.ms, now)}</span>}
            {next !== undefined && <div class="gap" style={{ minHeight: `${gapPx(gap)}px` }}>{gap > 0 && spanText(gap)}</div>}
          </li>
        );
      })}
    </ol>
  );
}

// `delivered`: the lateness is that of the first delivery, which no longer grows.
function LatenessFacts({ lateness, delivered }: {
  lateness: { server?: string; waiting?: string; total?: string } | undefined; delivered: boolean;
}): JSX.Element | null {
  if (!lateness || !(durationMs(lateness.total) > 0)) return null;
  return (
    <Facts facts={[
      [delivered ? "First delivered late by" : "Late by", spanText(durationMs(lateness.total))],
      ["of this by the server", spanText(durationMs(lateness.server) || 0)],
      ["waiting for a subscriber", spanText(durationMs(lateness.waiting) || 0)],
    ]} />
  );
}

function MessageFacts({ message }: { message: Message }): JSX.Element {
  return (
    <Facts facts={[
      ["Due", <When time={message.deliver_time} />],
      ["As local time", message.civil_time && <Shown text={`${message.civil_time.local} ${message.civil_time.time_zone}`} />],
      ["Key", message.key !== "" && <Shown text={message.key} />],
      ["Ordering key", message.ordering_key !== "" && <Shown text={message.ordering_key} />],
      ["Labels", Object.keys(message.labels).length > 0 && <LabelList labels={message.labels} />],
      ["Attempts", String(message.attempts)],
      ["Payload", bytesText(message.payload_bytes)],
      ["Expires", message.expire_time && <When time={message.expire_time} />],
      ["When too late", message.expire_time && wordOf(message.late_policy, "LATE_POLICY_")],
      ["Spread", message.spread && spanText(durationMs(message.spread))],
      ["Recurrence", message.recurrence !== "" && <><a href={href("recurrence", { name: message.recurrence })}><Shown text={message.recurrence} /></a> no. {message.occurrence}</>],
      [message.dead_letter_ids.length > 1 ? "Dead letters" : "Dead letter", message.dead_letter_ids.length > 0 && <>{message.dead_letter_ids.map((id) => <MessageLink key={id} id={id} />)}</>],
      ["Etag", message.etag !== "" && <Shown text={message.etag} />],
    ]} />
  );
}

function Origin({ message }: { message: Message }): JSX.Element | null {
  const origin = message.dead_letter;
  if (origin === undefined) return null;
  return (
    <section class="panel">
      <div class="title"><h2>Dead letter</h2></div>
      <Facts facts={[
        ["From topic", <TopicLink name={origin.topic} />],
        ["Given up by", <Shown text={origin.subscription} />],
        ["Why", wordOf(origin.reason, "REASON_")],
        ["Reason of the subscriber", origin.reason_text !== "" && <Shown text={origin.reason_text} />],
        ["Attempts", String(origin.attempts)],
        ["Original id", <MessageLink id={origin.message_id} />],
        ["Original key", origin.key !== "" && <Shown text={origin.key} />],
        ["Was due", <When time={origin.deliver_time} />],
        ["Last delivered", origin.last_dispatch_time && <When time={origin.last_dispatch_time} />],
      ]} />
    </section>
  );
}

const attemptColumns: Column<Attempt>[] = [
  { title: "Attempt", right: true, cell: (one) => one.number },
  { title: "Ended", cell: (one) => <When time={one.end_time} /> },
  { title: "How", cell: (one) => wordOf(one.end, "END_") },
  { title: "Reason", cell: (one) => <Shown text={one.reason} /> },
  { title: "Subscriber", cell: (one) => <Shown text={one.client_id} /> },
  { title: "Held for", right: true, cell: (one) => spanText(durationMs(one.held) || 0) },
  { title: "Then waited", right: true, cell: (one) => (one.delay ? spanText(durationMs(one.delay)) : "") },
];

// What failed, in one subscription.
function Attempts({ title, attempts }: { title: string; attempts: Attempt[] }): JSX.Element | null {
  if (attempts.length === 0) return null;
  return (
    <section class="panel">
      <div class="title"><h2>{title}</h2></div>
      <Table caption="Attempts that ended without a settlement, the oldest first" columns={attemptColumns} rows={attempts} keyOf={(one) => String(one.number)} />
    </section>
  );
}

const statusColumns = (topic: string): Column<SubscriptionStatus>[] => [
  { title: "Subscription", cell: (one) => (one.subscription === "" ? <span class="quiet">none yet</span>
    : <a href={href("subscription", { topic, name: one.subscription })}><Shown text={one.subscription} /></a>) },
  { title: "State", cell: (one) => <StateBadge state={one.state} /> },
  { title: "Attempts", right: true, cell: (one) => one.attempts },
  { title: "Dead letter", cell: (one) => (one.dead_letter_id === "" ? "" : <MessageLink id={one.dead_letter_id} />) },
  { title: "Waits for", cell: (one) => (one.wait_reason === "WAIT_REASON_UNSPECIFIED" ? "" : wordOf(one.wait_reason, "WAIT_REASON_")) },
  { title: "Lease ends", cell: (one) => (one.lease_end_time ? <When time={one.lease_end_time} /> : "") },
  { title: "Next attempt", cell: (one) => (one.retry_time ? <When time={one.retry_time} /> : "") },
];

const shownBytesMax = 64 * 1024;

function Payload({ message }: { message: Message | undefined }): JSX.Element | null {
  const [form, setForm] = useState<"text" | "json" | "hex">();
  if (message === undefined) return null;
  const all = bytesOf(message.payload);
  const bytes = all.subarray(0, shownBytesMax);
  const text = utf8Of(all);
  const json = text === null ? null : prettyJson(text);
  const usual = json !== null ? "json" : text !== null ? "text" : "hex";
  const chosen = form ?? usual;
  const forms: [typeof usual, string, boolean][] = [["text", "Text", text !== null], ["json", "JSON", json !== null], ["hex", "Hex", true]];
  const shown = chosen === "hex" ? hexText(bytes) : ((chosen === "json" ? json : text) ?? "").slice(0, shownBytesMax);
  return (
    <section class="panel">
      <div class="title">
        <h2>Payload</h2><span class="quiet">{bytesText(all.length)}{all.length > shownBytesMax && ", the first 64 KiB are shown"}</span><span class="grow" />
        <div class="buttons" role="group" aria-label="Form of the payload">
          {forms.map(([name, title, possible]) => (
            <button key={name} type="button" disabled={!possible} aria-pressed={chosen === name} onClick={() => setForm(name)}>{title}</button>
          ))}
        </div>
      </div>
      {all.length === 0 ? <p class="quiet">The payload is empty.</p> : <pre class={chosen} tabIndex={0}>{shown}</pre>}
      {Object.keys(message.attributes).length > 0 && (
        <><h2>Attributes</h2><Facts facts={Object.entries(message.attributes).map(([name, value]) => [visibleText(name), <Shown text={value} />])} /></>
      )}
    </section>
  );
}
