// SPDX-License-Identifier: Apache-2.0
//
// The dialog that schedules a message. It asks the server first what would happen, so that the time, in words, is the server's.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "./api";
import { useApp, useNow } from "./app";
import { ChangeDialog } from "./change";
import { momentOptions, payloadCommand, type Options } from "./command";
import { parseLabels } from "./filter";
import { noPayload, PayloadFields, payloadJson, payloadRefusal } from "./payload";
import { useLoaded, useSettled } from "./poll";
import { durationMs, momentText, msOf, ownZone, parseMoment, parseSpan, relativeText, spanJson, spanOption, zones, type Moment } from "./time";
import { TopicField } from "./topic_field";
import type { ScheduleRequest, WhenJson } from "./types";
import { Choice, MessageLink, Problem, TextField, When } from "./ui";

function whenJson(moment: Moment): WhenJson {
  if ("delayMs" in moment) return { delay: spanJson(moment.delayMs) };
  return "time" in moment ? { deliver_time: moment.time } : { civil_time: { local: moment.local, time_zone: moment.zone } };
}

const conflicts: [value: string, text: string, word: string][] = [
  ["", "refuse", ""], ["ON_CONFLICT_REPLACE", "replace it", "replace"], ["ON_CONFLICT_KEEP_TIME", "replace all but its time", "keep-time"],
  ["ON_CONFLICT_ONCE", "refuse, also if it has ended", "once"],
];

interface Form {
  topic: string;
  when: string;
  zone: string;
  key: string;
  conflict: string;
  labels: string;
  attributes: string;
  ordering: string;
  ttl: string;
}

// The request of the form without its payload, and its options; or why it cannot be read.
export function readForm(form: Form, now: number): { request: Omit<ScheduleRequest, "payload">; options: Options } | string {
  const moment = parseMoment(form.when, form.zone, now);
  const labels = parseLabels(form.labels);
  const attributes = parseLabels(form.attributes);
  const ttlMs = form.ttl === "" ? null : parseSpan(form.ttl);
  if (form.topic === "") return "Name a topic.";
  if (form.when === "") return "Say when.";
  if (moment === null) return "The time is written as: in 5 minutes, 1h30m, today 18:00, tomorrow 9am, or 2026-12-24 18:00.";
  if (labels === null || attributes === null) return "Labels and attributes are written as name=value, with commas between them.";
  if (form.ttl !== "" && (ttlMs === null || ttlMs <= 0)) return "The time to live is written as 1h30m.";
  const request: Omit<ScheduleRequest, "payload"> = { topic: form.topic, ...whenJson(moment) };
  const options = momentOptions(moment);
  if (form.key !== "") {
    request.key = form.key;
    options.push(["--key", form.key]);
    const conflict = conflicts.find(([value]) => value === form.conflict);
    if (conflict !== undefined && conflict[0] !== "") {
      request.on_conflict = conflict[0];
      options.push(["--on-conflict", conflict[2]]);
    }
  }
  if (Object.keys(labels).length > 0) request.labels = labels;
  if (Object.keys(attributes).length > 0) request.attributes = attributes;
  for (const [name, value] of Object.entries(labels)) options.push(["--label", `${name}=${value}`]);
  for (const [name, value] of Object.entries(attributes)) options.push(["--attr", `${name}=${value}`]);
  if (form.ordering !== "") {
    request.ordering_key = form.ordering;
    options.push(["--ordering-key", form.ordering]);
  }
  if (ttlMs !== null) {
    request.ttl = spanJson(ttlMs);
    options.push(["--ttl", spanOption(ttlMs)]);
  }
  return { request, options };
}

const outcomes: Record<string, string> = {
  SCHEDULE_OUTCOME_REPLACED: "It replaces the pending message with this key.",
  SCHEDULE_OUTCOME_UNCHANGED: "The same message is there already: nothing changes.",
};

export function ScheduleDialog({ topic, onClose }: { topic: string; onClose: (changed: boolean) => void }): JSX.Element {
  const { about } = useApp();
  const now = useNow();
  const [form, setForm] = useState<Form>({
    topic, when: "", zone: ownZone(), key: "", conflict: "", labels: "", attributes: "", ordering: "", ttl: "",
  });
  const [payload, setPayload] = useState(noPayload);
  // A repeat after an answer that was lost creates no second message.
  const [requestId] = useState(() => crypto.randomUUID());
  const set = (name: keyof Form) => (value: string) => setForm({ ...form, [name]: value });
  const read = readForm(form, now);
  const problem = typeof read === "string" ? read : payloadRefusal(payload);
  const request = typeof read === "string" ? null : { ...read.request, payload: payloadJson(payload) };
  const key = problem === undefined ? JSON.stringify(request) : "";
  const settled = useSettled(key);
  const dry = useLoaded(settled, async () => (settled === "" ? null
    : call("Messages/Schedule", { ...(JSON.parse(settled) as ScheduleRequest), validate_only: true })));
  const asked = settled === key ? dry.value : undefined;
  // A delay counts from the moment of the real call.
  const isDelay = request?.delay !== undefined && asked?.outcome === "SCHEDULE_OUTCOME_CREATED";
  const dueMs = isDelay ? now + durationMs(request?.delay) : msOf(asked?.message.deliver_time);
  let refusal = problem;
  if (refusal === undefined && settled === key && dry.error) refusal = "The server would refuse it.";
  else if (refusal === undefined && !asked) refusal = "Asking the server…";
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Schedule a message", verb: "Schedule", refusal,
      touches: (
        <>
          <div class="form">
            <TopicField value={form.topic} onInput={set("topic")} />
            <TextField label="When" value={form.when} onInput={set("when")} placeholder="in 5 minutes" hint="also: tomorrow 9am, 2026-12-24 18:00"
              invalid={form.when !== "" && parseMoment(form.when, form.zone, now) === null} />
            <Choice label="Time zone" value={form.zone} onChange={set("zone")} options={zones().map((zone) => [zone, zone])} />
            <PayloadFields payload={payload} onInput={setPayload} />
            <TextField label="Key" value={form.key} onInput={set("key")} hint="to find, move or cancel it by" />
            {form.key !== "" && <Choice label="If the key has a message" value={form.conflict} onChange={set("conflict")} options={conflicts.map(([value, text]) => [value, text])} />}
          </div>
          <details>
            <summary>Labels, attributes, order, time to live</summary>
            <div class="form">
              <TextField label="Labels" value={form.labels} onInput={set("labels")} placeholder="customer=42, kind=call" hint="to list and select by" />
              <TextField label="Attributes" value={form.attributes} onInput={set("attributes")} placeholder="trace=abc" hint="delivered with the payload" />
              <TextField label="Ordering key" value={form.ordering} onInput={set("ordering")} hint="those with the same one come in order" />
              <TextField label="Time to live" value={form.ttl} onInput={set("ttl")} placeholder="1h" hint="empty: that of the topic" />
            </div>
          </details>
          <Problem error={problem === undefined && settled === key ? dry.error : undefined} retry={dry.reload} />
          {!Number.isNaN(dueMs) && (
            <p role="status">
              Due <b>{momentText(dueMs, form.zone)}, {form.zone}</b>, {dueMs <= now ? "that is at once" : relativeText(dueMs, now)}
              {form.zone !== "UTC" && <span class="quiet"> ({momentText(dueMs, "UTC")})</span>}. {outcomes[asked?.outcome ?? ""]}
            </p>
          )}
        </>
      ),
      command: typeof read === "string" ? "" : payloadCommand(about.options, "schedule", [form.topic], payload.text, read.options),
      run: async () => {
        if (request === null) return null;
        const answer = await call("Messages/Schedule", { ...request, request_id: requestId });
        return <p>Scheduled <MessageLink id={answer.message.id} />, due <When time={answer.message.deliver_time} />.</p>;
      },
    }} />
  );
}
