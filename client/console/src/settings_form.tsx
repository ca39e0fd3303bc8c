// SPDX-License-Identifier: Apache-2.0
//
// The facts of a topic's or a subscription's settings, and the dialog that edits the settings.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ChangeDialog } from "./change";
import { changeOf, factsOf, refusalOf, textsOf, type SettingGroup, type SettingsChange } from "./settings";
import { Choice, Shown, TextField } from "./ui";

export function settingFacts(groups: SettingGroup[], settings: object): [string, JSX.Element][] {
  return factsOf(groups, textsOf(groups, settings))
    .map(([label, value]) => [label, value === "" ? <span class="quiet">default</span> : <Shown text={value} />]);
}

export function SettingsDialog({ title, note, groups, settings, commandOf, update, onClose }: {
  title: string; note: ComponentChildren; groups: SettingGroup[]; settings: object;
  commandOf: (change: SettingsChange) => string;
  update: (change: SettingsChange) => Promise<unknown>;
  onClose: (changed: boolean) => void;
}): JSX.Element {
  const [before] = useState(() => textsOf(groups, settings));
  const [texts, setTexts] = useState(before);
  const change = changeOf(groups, before, texts);
  const set = (path: string) => (value: string) => setTexts({ ...texts, [path]: value });
  const touches = (
    <>
      {note}
      <div class="form">
        {groups.flatMap((group) => group.fields).map((field) => (field.choices !== undefined
          ? <Choice key={field.path} label={field.label} value={texts[field.path] ?? ""} onChange={set(field.path)} hint={field.hint}
              options={field.choices.map(([value, text]) => [value, text])} />
          : <TextField key={field.path} label={field.label} value={texts[field.path] ?? ""} onInput={set(field.path)} hint={field.hint}
              invalid={refusalOf(field, texts[field.path] ?? "") !== null} />))}
      </div>
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
