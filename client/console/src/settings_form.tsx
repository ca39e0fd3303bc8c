// SPDX-License-Identifier: Apache-2.0
//
// The facts of a topic's or a subscription's settings, and the form that edits the settings.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { useApp } from "./app";
import { ChangeDialog } from "./change";
import { changeOf, factsOf, refusalOf, textsOf, type SettingGroup, type SettingsChange, type Texts } from "./settings";
import { Choice, Shown, TextField } from "./ui";

// `name`: of the topic.
export function useSettingFacts(groups: SettingGroup[], settings: object | undefined, name: string): [string, JSX.Element][] {
  const { info } = useApp();
  return factsOf(groups, textsOf(groups, settings ?? {}), { name, limits: info?.limits })
    .map(({ label, value, unset }) => [label, unset ? <span class="quiet"><Shown text={value} /> (default)</span> : <Shown text={value} />]);
}

export function SettingFields({ groups, texts, set }: {
  groups: SettingGroup[]; texts: Texts; set: (path: string, value: string) => void;
}): JSX.Element {
  return (
    <div class="form">
      {groups.flatMap((group) => group.fields).map((field) => (field.choices !== undefined
        ? <Choice key={field.path} label={field.label} value={texts[field.path] ?? ""} onChange={(value) => set(field.path, value)} hint={field.hint}
            options={field.choices.map(([value, text]) => [value, text])} />
        : <TextField key={field.path} label={field.label} value={texts[field.path] ?? ""} onInput={(value) => set(field.path, value)} hint={field.hint}
            invalid={refusalOf(field, texts[field.path] ?? "") !== null} />))}
    </div>
  );
}

// `name`: of the topic.
export function SettingsDialog({ title, note, name, groups, settings, commandOf, update, onClose }: {
  title: string; note: ComponentChildren; name: string; groups: SettingGroup[]; settings: object;
  commandOf: (change: SettingsChange) => string;
  update: (change: SettingsChange) => Promise<unknown>;
  onClose: (changed: boolean) => void;
}): JSX.Element {
  const { info } = useApp();
  const [before] = useState(() => textsOf(groups, settings));
  const [texts, setTexts] = useState(before);
  const change = changeOf(groups, before, texts, { name, limits: info?.limits });
  const touches = (
    <>
      {note}
      <SettingFields groups={groups} texts={texts} set={(path, value) => setTexts({ ...texts, [path]: value })} />
      {change.changes.length > 0 && (
        <p>{change.changes.map(({ label, from, to }, index) => (
          <span key={label}>{index > 0 && "; "}{label}: <Shown text={from} /> → <b><Shown text={to} /></b></span>
        ))}</p>
      )}
    </>
  );
  return (
    <ChangeDialog onClose={onClose} change={{
      title, touches, verb: "Change", refusal: change.refusal, command: commandOf(change),
      run: async () => {
        await update(change);
        return <p>The settings are changed.</p>;
      },
    }} />
  );
}
