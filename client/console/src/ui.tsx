// SPDX-License-Identifier: Apache-2.0
//
// The building blocks of the pages.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CallError } from "./api";
import { useNow } from "./app";
import { href } from "./route";
import { countText, visibleText, wordOf } from "./text";
import { localText, msOf, relativeText, utcText } from "./time";
import type { Labels } from "./types";

// Text that a producer chose. Shows each character, and keeps the direction of the text around it. Cuts text that is longer than
// `max`; the title has all of it.
export function Shown({ text, max = Infinity }: { text: string; max?: number }): JSX.Element {
  const all = visibleText(text);
  const cut = all.length > max;
  return <bdi class="shown" title={cut ? all : undefined}>{cut ? `${all.slice(0, max)}…` : all}</bdi>;
}

// A time in the browser's zone; the title has the exact UTC.
export function When({ time, relative = true }: { time: string | undefined; relative?: boolean }): JSX.Element {
  const now = useNow();
  const ms = msOf(time);
  if (Number.isNaN(ms)) return <span class="quiet">-</span>;
  return (
    <time dateTime={time} title={utcText(ms)}>
      <span>{localText(ms, now)}</span>{relative && <> <span class="quiet">{relativeText(ms, now)}</span></>}
    </time>
  );
}

export function Badge({ text, tone = "" }: { text: string; tone?: "" | "good" | "warn" | "bad" | "busy" }): JSX.Element {
  return <span class={`badge ${tone}`}>{text}</span>;
}

const stateTones: Record<string, "good" | "warn" | "bad" | "busy" | ""> = {
  STATE_DUE: "warn", STATE_IN_FLIGHT: "busy", STATE_ACKED: "good", STATE_DEAD_LETTERED: "bad", STATE_EXPIRED: "bad",
  STATE_ACTIVE: "good", STATE_PAUSED: "warn", STATE_STARTING: "warn", STATE_RUNNING: "busy", STATE_DONE: "good", STATE_FAILED: "bad",
  STATE_STALLED: "bad",
};
export function StateBadge({ state }: { state: string }): JSX.Element {
  return <Badge text={wordOf(state)} tone={stateTones[state] ?? ""} />;
}

export function Tile({ label, value, note, tone = "" }: {
  label: string; value: ComponentChildren; note?: ComponentChildren; tone?: string;
}): JSX.Element {
  return (
    <div class={`tile ${tone}`}>
      <div class="label">{label}</div>
      <div class="value">{value}</div>
      {note !== undefined && <div class="note">{note}</div>}
    </div>
  );
}

// Labels; in a list, `short`: the beginnings of the first ones.
export function LabelList({ labels, short = false }: { labels: Labels | undefined; short?: boolean }): JSX.Element | null {
  const all = Object.entries(labels ?? {});
  if (all.length === 0) return null;
  const shown = short ? all.slice(0, 4) : all;
  return (
    <span class="labels">
      {shown.map(([name, value]) => <span class="chip" key={name}><Shown text={`${name}=${value}`} max={short ? 40 : Infinity} /></span>)}
      {shown.length < all.length && <span class="quiet">+{all.length - shown.length}</span>}
    </span>
  );
}

export function Problem({ error, retry }: { error: CallError | undefined; retry?: () => void }): JSX.Element | null {
  if (error === undefined) return null;
  return (
    <div class="problem" role="alert">
      <b>{error.reason || error.code}</b> <Shown text={error.message} />
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return <div class="empty"><b>{title}</b>{children}</div>;
}

// What is shown until the first answer.
export function Waiting(): JSX.Element {
  return <div class="empty" aria-busy="true">Loading…</div>;
}

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ComponentChildren;
  // Numbers stand at the right.
  right?: boolean;
  wide?: boolean;
}

// A table; on a narrow screen, a card for each row.
export function Table<Row>({ caption, columns, rows, keyOf }: {
  caption: string; columns: Column<Row>[]; rows: Row[]; keyOf: (row: Row) => string;
}): JSX.Element {
  return (
    <div class="scroll">
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>{columns.map((one) => <th key={one.title} scope="col" class={one.right ? "right" : ""}>{one.title}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((one) => (
                <td key={one.title} data-label={one.title} class={`${one.right ? "right" : ""} ${one.wide ? "wide" : ""}`}>
                  {one.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Names and values.
export function Facts({ facts }: { facts: [string, ComponentChildren][] }): JSX.Element {
  const shown = facts.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return <dl class="facts">{shown.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Field({ label, hint, children }: {
  label: string; hint?: string; children: (id: string) => ComponentChildren;
}): JSX.Element {
  const id = useId();
  return <div class="field"><label for={id}>{label}</label>{children(id)}{hint && <small>{hint}</small>}</div>;
}

export function TextField({ label, value, onInput, hint, placeholder, type = "text", list, invalid }: {
  label: string; value: string; onInput: (value: string) => void; hint?: string; placeholder?: string; type?: string; list?: string;
  invalid?: boolean;
}): JSX.Element {
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <input id={id} type={type} value={value} placeholder={placeholder} list={list} autocomplete="off" spellcheck={false}
          step={type === "datetime-local" ? "1" : undefined} aria-invalid={invalid ? "true" : undefined}
          onInput={(event) => onInput(event.currentTarget.value)} />
      )}
    </Field>
  );
}

export function Choice({ label, value, onChange, options, hint }: {
  label: string; value: string; onChange: (value: string) => void; options: [value: string, text: string][]; hint?: string;
}): JSX.Element {
  return (
    <Field label={label} hint={hint}>
      {(id) => (
        <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {options.map(([one, text]) => <option key={one} value={one}>{text}</option>)}
        </select>
      )}
    </Field>
  );
}

// A command line, with a button that copies it.
export function CommandBox({ command }: { command: string }): JSX.Element {
  const [copied, setCopied] = useState(false);
  const copy = () => void navigator.clipboard.writeText(command).then(() => setCopied(true), () => setCopied(false));
  useEffect(() => setCopied(false), [command]);
  return (
    <div class="command">
      <code>{command}</code>
      <button type="button" onClick={copy}>{copied ? "Copied" : "Copy"}</button>
    </div>
  );
}

export function Dialog({ title, onClose, children }: {
  title: string; onClose: () => void; children: ComponentChildren;
}): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useLayoutEffect(() => {
    const open = dialog.current;
    open?.showModal();
    // The focus goes back to where it was only if the dialog is closed before it is removed.
    return () => open?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

export function TopicLink({ name }: { name: string }): JSX.Element {
  return <a href={href("topic", { name })}><Shown text={name} /></a>;
}

export function MessageLink({ id }: { id: string }): JSX.Element {
  return <a class="id" href={href("message", { id })}>{id}</a>;
}

export function Count({ value }: { value: string | number | undefined }): JSX.Element {
  return <span class="number">{countText(value)}</span>;
}

export function Pager({ pages, shown }: { pages: Pages; shown: number }): JSX.Element | null {
  if (pages.number === 1 && pages.next === "") return null;
  return (
    <div class="pager">
      <button type="button" disabled={pages.number === 1} onClick={pages.back}>Back</button>
      <span>page {pages.number}, {shown} on it</span>
      <button type="button" disabled={pages.next === ""} onClick={pages.forward}>Next</button>
    </div>
  );
}

export interface Pages {
  token: string;
  number: number;
  next: string;
  setNext: (token: string) => void;
  back: () => void;
  forward: () => void;
}

// The page tokens of a list, which begins anew when `key` changes.
export function usePages(key: string): Pages {
  const [state, setState] = useState<{ key: string; tokens: string[]; next: string }>({ key, tokens: [""], next: "" });
  const { tokens, next } = state.key === key ? state : { tokens: [""], next: "" };
  return {
    token: tokens[tokens.length - 1] ?? "",
    number: tokens.length,
    next,
    setNext: (token) => setState((old) => ({ key, tokens: old.key === key ? old.tokens : [""], next: token })),
    back: () => setState({ key, tokens: tokens.slice(0, -1), next: "" }),
    forward: () => setState({ key, tokens: [...tokens, next], next: "" }),
  };
}
