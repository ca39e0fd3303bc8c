// SPDX-License-Identifier: Apache-2.0
//
// The dialogs that create topics, subscriptions and recurrences.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "./api";
import { useApp } from "./app";
import { ChangeDialog } from "./change";
import { commandLine, payloadCommand, type Options } from "./command";
import { noPayload, PayloadFields, payloadJson, payloadRefusal } from "./payload";
import { useLoaded, useSettled } from "./poll";
import { href } from "./route";
import { changeOf, subscriptionSettings, textsOf, topicSettings, type SettingGroup, type SettingsChange } from "./settings";
import { SettingFields } from "./settings_form";
import { localText, msOf, ownZone, parseSpan, spanJson, spanOption, zones } from "./time";
import { TopicField } from "./topic_field";
import type { NewRecurrence } from "./types";
import { Choice, Problem, Shown, TextField, TopicLink } from "./ui";

interface Props {
  onClose: (changed: boolean) => void;
}

const namePattern = /^[\w.:/-]{1,255}$/;
const nameRefusal = (what: string, name: string): string | undefined =>
  namePattern.test(name) ? undefined : `Name the ${what}: up to 255 letters, digits and . _ - : /`;

// The settings of a form that creates something: what differs from the defaults.
function useNewSettings(groups: SettingGroup[], name: string): { change: SettingsChange; refusal?: string; fields: JSX.Element } {
  const { info } = useApp();
  const [before] = useState(() => textsOf(groups, {}));
  const [texts, setTexts] = useState(before);
  const change = changeOf(groups, before, texts, { name, limits: info?.limits });
  return {
    change,
    refusal: change.mask === "" ? undefined : change.refusal,
    fields: (
      <details>
        <summary>Settings{change.changes.length > 0 && `: ${change.changes.length} changed`}</summary>
        <SettingFields groups={groups} texts={texts} set={(path, value) => setTexts({ ...texts, [path]: value })} />
      </details>
    ),
  };
}

export function CreateTopicDialog({ name: first = "", onClose }: Props & { name?: string }): JSX.Element {
  const { about } = useApp();
  const [name, setName] = useState(first);
  const { change, refusal, fields } = useNewSettings(topicSettings, name);
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Create a topic", verb: "Create", refusal: nameRefusal("topic", name) ?? refusal,
      touches: (
        <>
          <p>Often not needed: the first message or subscriber that names a topic creates it.</p>
          <TextField label="Name" value={name} onInput={setName} placeholder="orders" />
          {fields}
        </>
      ),
      command: commandLine(about.options, "topic create", [name], change.options),
      run: async () => {
        await call("Admin/CreateTopic", { topic: { name, settings: change.settings } });
        return <p>The topic <TopicLink name={name} /> is there.</p>;
      },
    }} />
  );
}

export function CreateSubscriptionDialog({ topic, onClose }: Props & { topic: string }): JSX.Element {
  const { about } = useApp();
  const [name, setName] = useState("");
  const [start, setStart] = useState("START_NEW");
  const { change, refusal, fields } = useNewSettings(subscriptionSettings, topic);
  const options: Options = start === "START_ALL" ? [["--start", "all"], ...change.options] : change.options;
  return (
    <ChangeDialog onClose={onClose} change={{
      title: `Create a subscription of ${topic}`, verb: "Create", refusal: nameRefusal("subscription", name) ?? refusal,
      touches: (
        <>
          <p>Each subscription gets every message of the topic, at its own pace and with its own retries.</p>
          <div class="form">
            <TextField label="Name" value={name} onInput={setName} placeholder="billing" />
            <Choice label="Gets" value={start} onChange={setStart} hint="the first subscription of a topic gets all"
              options={[["START_NEW", "messages accepted from now on"], ["START_ALL", "also all pending messages"]]} />
          </div>
          {fields}
        </>
      ),
      command: commandLine(about.options, "subscription create", [topic, name], options),
      run: async () => {
        await call("Admin/CreateSubscription", { subscription: { topic, name, settings: change.settings }, start });
        return <p>The subscription <a href={href("subscription", { topic, name })}><Shown text={name} /></a> is there.</p>;
      },
    }} />
  );
}

// The next times of a schedule, as the server computes them.
function NextTimes({ recurrence }: { recurrence: NewRecurrence }): JSX.Element | null {
  const schedule = useSettled(recurrence.schedule);
  const key = JSON.stringify(schedule);
  const preview = useLoaded(key, () => call("Messages/PreviewRecurrence", { schedule, count: 3 }));
  if (preview.error) return <Problem error={preview.error} />;
  const times: ComponentChildren = preview.value?.occurrences.map((one) => localText(msOf(one.time))).join(", ");
  return <p role="status">{preview.value === undefined ? "Asking the server…" : <>Next, in this browser&rsquo;s zone: {times || "never"}.</>}</p>;
}

export function CreateRecurrenceDialog({ topic: first = "", onClose }: Props & { topic?: string }): JSX.Element {
  const { about } = useApp();
  const [form, setForm] = useState({ name: "", topic: first, rule: "cron", cron: "", zone: ownZone(), every: "" });
  const [payload, setPayload] = useState(noPayload);
  const set = (name: keyof typeof form) => (value: string) => setForm({ ...form, [name]: value });
  const isCron = form.rule === "cron";
  const everyMs = parseSpan(form.every);
  const recurrence: NewRecurrence = {
    name: form.name, topic: form.topic, template: { payload: payloadJson(payload) },
    schedule: isCron ? { cron: form.cron.trim(), time_zone: form.zone } : { interval: spanJson(everyMs ?? 0) },
  };
  const ruled = isCron ? form.cron.trim() !== "" : everyMs !== null && everyMs > 0;
  let refusal = nameRefusal("recurrence", form.name);
  if (refusal === undefined && form.topic === "") refusal = "Name a topic.";
  if (refusal === undefined && !ruled) refusal = isCron ? "Say when, as a cron expression: 30 9 * * MON-FRI" : "Say how often: 90s, 1h30m, 1d";
  const options: Options = isCron ? [["--cron", form.cron.trim()], ["--tz", form.zone]] : [["--every", spanOption(everyMs ?? 0)]];
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Create a recurrence", verb: "Create", refusal: refusal ?? payloadRefusal(payload),
      touches: (
        <>
          <div class="form">
            <TextField label="Name" value={form.name} onInput={set("name")} placeholder="standup" />
            <TopicField value={form.topic} onInput={set("topic")} />
            <Choice label="Rule" value={form.rule} onChange={set("rule")} options={[["cron", "cron expression"], ["every", "at an interval"]]} />
            {isCron ? (
              <>
                <TextField label="Cron expression" value={form.cron} onInput={set("cron")} placeholder="30 9 * * MON-FRI" hint="minute hour day month weekday" />
                <Choice label="Time zone" value={form.zone} onChange={set("zone")} options={zones().map((zone) => [zone, zone])} />
              </>
            ) : <TextField label="Every" value={form.every} onInput={set("every")} placeholder="1h" invalid={form.every !== "" && !ruled} />}
            <PayloadFields payload={payload} onInput={setPayload} />
          </div>
          {ruled && <NextTimes recurrence={recurrence} />}
        </>
      ),
      command: payloadCommand(about.options, "recur create", [form.name, form.topic], payload.text, options),
      run: async () => {
        await call("Messages/CreateRecurrence", { recurrence });
        return <p>The recurrence <a href={href("recurrence", { name: form.name })}><Shown text={form.name} /></a> is there.</p>;
      },
    }} />
  );
}
