// SPDX-License-Identifier: Apache-2.0
//
// The input of a topic's name. It offers the names that begin with what is typed. A datalist would do the same in some browsers only:
// Firefox shows none beside autocomplete="off".

import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { call } from "./api";
import { useLoaded, useSettled } from "./poll";
import { Field, Shown } from "./ui";

const offeredMax = 12;

export function TopicField({ label = "Topic", value, onInput, hint, placeholder }: {
  label?: string; value: string; onInput: (value: string) => void; hint?: string; placeholder?: string;
}): JSX.Element {
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const list = useId();
  const prefix = useSettled(value);
  const topics = useLoaded(`topics ${open} ${prefix}`, () => (open
    ? call("Admin/ListTopics", { name_prefix: prefix, page_size: offeredMax })
    : Promise.resolve({ topics: [], next_page_token: "" })));
  // The answer may be that for what was typed before.
  const names = (topics.value?.topics ?? []).map((one) => one.name).filter((name) => name !== value && name.startsWith(value));
  const shown = open && names.length > 0;
  const take = (name: string): void => {
    onInput(name);
    setOpen(false);
    setChosen(-1);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const name = names[chosen];
    if (step !== undefined) {
      event.preventDefault();
      setOpen(true);
      setChosen(Math.max(-1, Math.min(names.length - 1, chosen + step)));
    } else if (shown && event.key === "Enter" && name !== undefined) {
      event.preventDefault();
      take(name);
    } else if (shown && event.key === "Escape") {
      // A dialog around the field stays open.
      event.preventDefault();
      event.stopPropagation();
      setOpen(false);
    }
  };
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <div class="offers">
          <input id={id} type="text" value={value} placeholder={placeholder} autocomplete="off" spellcheck={false} role="combobox"
            aria-expanded={shown} aria-controls={list} aria-autocomplete="list" aria-activedescendant={shown && chosen >= 0 ? `${list}-${chosen}` : undefined}
            onFocus={() => setOpen(value === "")} onClick={() => setOpen(true)} onBlur={() => setOpen(false)} onKeyDown={onKey}
            onInput={(event) => { setOpen(true); setChosen(-1); onInput(event.currentTarget.value); }} />
          <ul id={list} role="listbox" aria-label="Names that begin so" hidden={!shown}>
            {names.map((name, index) => (
              // A press would take the focus from the input, which closes the list before the click.
              <li key={name} id={`${list}-${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => event.preventDefault()}
                onClick={() => take(name)}><Shown text={name} /></li>
            ))}
          </ul>
        </div>
      )}
    </Field>
  );
}
