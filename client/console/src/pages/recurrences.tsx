// SPDX-License-Identifier: Apache-2.0
//
// Recurrences, and one of them with its next occurrences.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp, useNow } from "../app";
import { ChangeDialog } from "../change";
import { commandLine } from "../command";
import { CreateRecurrenceDialog } from "../create_dialogs";
import { DeleteRecurrenceDialog } from "../delete_dialogs";
import { useLoaded, useSettled } from "../poll";
import { href, replace } from "../route";
import { bytesOf, bytesText, utf8Of, wordOf } from "../text";
import { durationMs, localText, msOf, spanText, utcText } from "../time";
import { TopicField } from "../topic_field";
import type { Occurrence, Recurrence } from "../types";
import {
  Act, CommandBox, Count, Empty, Facts, LabelList, MessageLink, Missing, Pager, Problem, Shown, StateBadge, Table, TopicLink, Waiting, When, countOrder,
  isMissing, rowsOf, timeOrder, usePages,
} from "../ui";

const pageSize = 50;
const previewCount = 10;

function scheduleText({ schedule }: Recurrence): string {
  return schedule.interval ? `every ${spanText(durationMs(schedule.interval))}` : `${schedule.cron ?? ""} ${schedule.time_zone || "UTC"}`;
}

export function RecurrencesPage({ params: typed }: { params: Record<string, string> }): JSX.Element {
  const params = useSettled(typed);
  const { about } = useApp();
  const [creating, setCreating] = useState(false);
  const topic = params.topic ?? "";
  const pages = usePages(topic);
  const list = useLoaded(`recurrences ${topic} ${pages.token}`, () => call("Messages/ListRecurrences", { topic, page_size: rowsOf(pageSize), page_token: pages.token }), 5_000);
  useEffect(() => { if (list.value) pages.setNext(list.value.next_page_token); }, [list.value]);
  return (
    <>
      <div class="head"><h1>Recurrences</h1><span class="grow" /><Act primary onClick={() => setCreating(true)}>Create a recurrence</Act></div>
      <div class="panel"><div class="form"><TopicField label="Of the topic" value={typed.topic ?? ""} onInput={(value) => replace("recurrences", { topic: value })} placeholder="all topics" /></div></div>
      <Problem error={list.error} retry={list.reload} />
      <div class="panel">
        {list.value === undefined ? !list.error && <Waiting /> : list.value.recurrences.length === 0
          ? <Empty title="No recurrences"><span>{about.read_only ? "Create one on the command line:" : "Create one with the button above, or on the command line:"}</span>
              <CommandBox command={commandLine(about.options, "recur create", ["standup", "chat", "time to talk"], [["--cron", "30 9 * * MON-FRI"], ["--tz", "Europe/Berlin"]])} /></Empty>
          : <Table caption="Recurrences" rows={list.value.recurrences} keyOf={(one) => one.name} columns={[
              { title: "Recurrence", wide: true, by: (one) => one.name, cell: (one) => <a href={href("recurrence", { name: one.name })}><Shown text={one.name} /></a> },
              { title: "Topic", wide: true, by: (one) => one.topic, cell: (one) => <TopicLink name={one.topic} /> },
              { title: "State", by: (one) => one.state, cell: (one) => <StateBadge state={one.state} /> },
              { title: "Schedule", cell: (one) => <Shown text={scheduleText(one)} /> },
              { title: "Next", by: (one) => timeOrder(one.next_deliver_time), cell: (one) => <When time={one.next_deliver_time} /> },
              { title: "Made", right: true, by: (one) => countOrder(one.occurrences), cell: (one) => <Count value={one.occurrences} /> },
              { title: "Skipped", right: true, by: (one) => countOrder(one.skipped), cell: (one) => <Count value={one.skipped} /> },
            ]} />}
        <Pager pages={pages} shown={list.value?.recurrences.length ?? 0} />
      </div>
      {creating && <CreateRecurrenceDialog topic={topic} onClose={(changed) => { setCreating(false); if (changed) list.reload(); }} />}
    </>
  );
}

export function RecurrencePage({ params }: { params: Record<string, string> }): JSX.Element {
  const name = params.name ?? "";
  const { about } = useApp();
  const [asking, setAsking] = useState<"pause" | "delete">();
  const loaded = useLoaded(`recurrence ${name}`, async () => (await call("Messages/GetRecurrence", { name })).recurrence, 5_000);
  const recurrence = loaded.value;
  const preview = useLoaded(`preview ${name} ${recurrence?.next_deliver_time} ${recurrence?.update_time}`,
    () => (recurrence === undefined ? Promise.resolve({ occurrences: [] }) : call("Messages/PreviewRecurrence", { name, count: previewCount })));
  const paused = recurrence?.state === "STATE_PAUSED";
  const close = (changed: boolean) => {
    setAsking(undefined);
    if (changed) loaded.reload();
  };
  return (
    <>
      <div class="head">
        <h1><Shown text={name} /></h1>
        {recurrence && <StateBadge state={recurrence.state} />}
        {recurrence && <span class="quiet">in <TopicLink name={recurrence.topic} /></span>}
        <span class="grow" />
        {recurrence && (
          <div class="buttons">
            {recurrence.state !== "STATE_COMPLETED" && <Act onClick={() => setAsking("pause")}>{paused ? "Resume" : "Pause"}</Act>}
            <Act onClick={() => setAsking("delete")}>Delete</Act>
          </div>
        )}
      </div>
      <Problem error={isMissing(loaded.error) ? undefined : loaded.error} retry={loaded.reload} />
      <Missing error={loaded.error} name={name}><a href={href("recurrences")}>All recurrences</a></Missing>
      {recurrence?.state === "STATE_STALLED" && <p class="problem" role="alert">It makes no messages: <Shown text={recurrence.state_reason} /></p>}
      {recurrence === undefined || isMissing(loaded.error) ? !loaded.error && <Waiting /> : (
        <>
          <section class="panel">
            <div class="title"><h2>The next {previewCount} occurrences</h2>{paused && <span class="quiet">as if it were resumed now</span>}</div>
            <Problem error={preview.error} retry={preview.reload} />
            {preview.value === undefined ? !preview.error && <Waiting /> : <Calendar occurrences={preview.value.occurrences} />}
          </section>
          <section class="panel"><div class="title"><h2>Recurrence</h2></div><RecurrenceFacts recurrence={recurrence} /></section>
        </>
      )}
      {asking === "delete" && recurrence && <DeleteRecurrenceDialog recurrence={recurrence} onClose={close} />}
      {asking === "pause" && recurrence && (
        <ChangeDialog onClose={close} change={{
          title: paused ? "Resume the recurrence" : "Pause the recurrence",
          verb: paused ? "Resume" : "Pause",
          touches: paused
            ? <p><b><Shown text={name} /></b> makes messages again. What happens to missed occurrences: {wordOf(recurrence.misfire, "MISFIRE_")}.</p>
            : <p><b><Shown text={name} /></b> makes no more messages until you resume it. Its pending occurrence, due <When time={recurrence.next_deliver_time} />, is
                cancelled if it was never delivered.</p>,
          command: commandLine(about.options, `recur ${paused ? "resume" : "pause"}`, [name]),
          run: async () => {
            const answer = await call(paused ? "Messages/ResumeRecurrence" : "Messages/PauseRecurrence", { name });
            return <p>The recurrence is {wordOf(answer.recurrence.state)}.</p>;
          },
        }} />
      )}
    </>
  );
}

const width = 1_000;
const margin = 10;

// The occurrences as points on a line of time, from now to the last one, and as a list.
function Calendar({ occurrences }: { occurrences: Occurrence[] }): JSX.Element {
  const now = useNow();
  const times = occurrences.map((one) => msOf(one.time));
  const last = times[times.length - 1];
  if (last === undefined) return <Empty title="No more occurrences" />;
  const from = Math.min(now, times[0] ?? now);
  const at = (ms: number) => margin + ((width - 2 * margin) * (ms - from)) / Math.max(1, last - from);
  return (
    <>
      <svg class="calendar" viewBox={`0 0 ${width} 48`} preserveAspectRatio="none" role="img" aria-label="The next occurrences on a line of time">
        <line x1={margin} x2={width - margin} y1="24" y2="24" />
        <line class="now" x1={at(now)} x2={at(now)} y1="4" y2="44" />
        {times.map((ms) => <line key={ms} class="tick" x1={at(ms)} x2={at(ms)} y1="12" y2="36"><title>{utcText(ms)}</title></line>)}
      </svg>
      <div class="ends quiet"><span>now</span><span>{spanText(last - now)}</span><span>{localText(last)}</span></div>
      <Table caption="Occurrences" rows={occurrences} keyOf={(one) => one.time} columns={[
        { title: "No.", right: true, cell: (one) => (one.number === "0" ? "" : one.number) },
        { title: "Due", cell: (one) => <When time={one.time} /> },
        { title: "Local time of the schedule", cell: (one) => <span>{one.civil_time.local.replace("T", " ")} <span class="quiet">{one.civil_time.time_zone}</span></span> },
      ]} />
    </>
  );
}

function RecurrenceFacts({ recurrence }: { recurrence: Recurrence }): JSX.Element {
  const { schedule, template } = recurrence;
  const payload = template ? utf8Of(bytesOf(template.payload)) : null;
  return (
    <Facts facts={[
      ["Schedule", <Shown text={scheduleText(recurrence)} />],
      ["Starts", schedule.start_time && <When time={schedule.start_time} />],
      ["Ends", schedule.end_time && <When time={schedule.end_time} />],
      ["Occurrences at most", schedule.max_count !== "0" && schedule.max_count],
      ["Jitter", schedule.jitter && spanText(durationMs(schedule.jitter))],
      ["Pending occurrence", recurrence.next_message_id !== "" && <MessageLink id={recurrence.next_message_id} />],
      ["Made so far", <Count value={recurrence.occurrences} />],
      ["Skipped", <Count value={recurrence.skipped} />],
      ["If the previous one has not ended", wordOf(recurrence.overlap, "OVERLAP_") || "allow"],
      ["Missed occurrences", wordOf(recurrence.misfire, "MISFIRE_")],
      ["Created", <When time={recurrence.create_time} />],
      ["Labels", template && Object.keys(template.labels).length > 0 && <LabelList labels={template.labels} />],
      ["Payload", template && (payload === null ? bytesText(bytesOf(template.payload).length) : <Shown text={payload.slice(0, 500)} />)],
    ]} />
  );
}
