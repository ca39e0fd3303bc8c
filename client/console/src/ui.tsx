// SPDX-License-Identifier: Apache-2.0
//
// The building blocks of the pages.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CallError } from "./api";
import { useApp, useNow } from "./app";
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

// An error of a call. A server that does not answer is one trouble, however many calls fail: only the frame says so.
export function Problem({ error, retry, frame = false }: { error: CallError | undefined; retry?: () => void; frame?: boolean }): JSX.Element | null {
  const { trouble } = useApp();
  if (error === undefined || (!frame && trouble?.code === error.code)) return null;
  return (
    <div class="problem" role="alert">
      <b>{error.reason || error.code}</b> <Shown text={error.message} />
      {retry && <button type="button" onClick={retry}>Try again</button>}
    </div>
  );
}

const missing: Record<string, string> = { TOPIC_NOT_FOUND: "topic", SUBSCRIPTION_NOT_FOUND: "subscription", RECURRENCE_NOT_FOUND: "recurrence" };

// True if the error says that a named thing does not exist.
export const isMissing = (error: CallError | undefined): boolean => error !== undefined && missing[error.reason] !== undefined;

// In place of a page whose thing does not exist. `children`: what to do about it.
export function Missing({ error, name, children }: { error: CallError | undefined; name: string; children?: ComponentChildren }): JSX.Element | null {
  const what = missing[error?.reason ?? ""];
  if (what === undefined) return null;
  return <div class="panel" role="alert"><Empty title={<>There is no {what} <Shown text={name} /></>}>{children}</Empty></div>;
}

// A button that changes something. A console that only reads has none.
export function Act({ children, onClick, label, disabled, primary }: {
  children: ComponentChildren; onClick: () => void; label?: string; disabled?: boolean; primary?: boolean;
}): JSX.Element | null {
  const { about } = useApp();
  if (about.read_only) return null;
  return <button type="button" class={primary ? "primary" : undefined} aria-label={label} disabled={disabled} onClick={onClick}>{children}</button>;
}

export function Empty({ title, children }: { title: ComponentChildren; children?: ComponentChildren }): JSX.Element {
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
  // What the column is sorted by. Without it, the column cannot be sorted.
  by?: (row: Row) => string | number | bigint;
}

// The value of a time to sort by: rows without one come last.
export const timeOrder = (time: string | undefined): number => {
  const ms = msOf(time);
  return Number.isNaN(ms) ? Infinity : ms;
};
export const countOrder = (value: string | number | undefined): bigint => BigInt(value ?? 0);

interface Sorting {
  title: string;
  down: boolean;
}

function sorted<Row>(rows: Row[], columns: Column<Row>[], sorting: Sorting | undefined): Row[] {
  const by = columns.find((one) => one.title === sorting?.title)?.by;
  if (by === undefined) return rows;
  const sign = sorting?.down ? -1 : 1;
  return rows.map((row) => ({ row, value: by(row) })).sort((a, b) => (a.value < b.value ? -sign : a.value > b.value ? sign : 0)).map(({ row }) => row);
}

// A table; on a narrow screen, a card for each row. Sorts the rows that it has: those of one page.
export function Table<Row>({ caption, columns, rows, keyOf }: {
  caption: string; columns: Column<Row>[]; rows: Row[]; keyOf: (row: Row) => string;
}): JSX.Element {
  const [sorting, setSorting] = useState<Sorting>();
  const id = useId();
  const sortBy = (title: string) => setSorting((old) => ({ title, down: old?.title === title && !old.down }));
  const sortable = columns.filter((one) => one.by !== undefined);
  const head = (one: Column<Row>): JSX.Element => {
    const direction = one.title !== sorting?.title ? undefined : sorting.down ? "descending" : "ascending";
    return (
      <th key={one.title} scope="col" class={one.right ? "right" : ""} aria-sort={direction}>
        {one.by === undefined ? one.title : (
          <button type="button" class="sort" title="Sort the rows of this page" onClick={() => sortBy(one.title)}>
            {one.title}<span aria-hidden="true">{direction === undefined ? "" : sorting?.down ? " ▼" : " ▲"}</span>
          </button>
        )}
      </th>
    );
  };
  return (
    <div class="scroll">
      {sortable.length > 0 && rows.length > 1 && (
        <div class="sortby">
          <label for={id}>Sort by</label>
          <select id={id} value={sorting === undefined ? "" : `${sorting.title}${sorting.down ? " ▼" : ""}`} onChange={(event) => {
            const value = event.currentTarget.value;
            setSorting(value === "" ? undefined : { title: value.replace(" ▼", ""), down: value.endsWith(" ▼") });
          }}>
            <option value="">as the server lists</option>
            {sortable.flatMap(({ title }) => [<option key={title} value={title}>{title}</option>, <option key={`${title} ▼`} value={`${title} ▼`}>{title} ▼</option>])}
          </select>
        </div>
      )}
      <table>
        <caption class="unseen">{caption}</caption>
        <thead><tr>{columns.map(head)}</tr></thead>
        <tbody>
          {sorted(rows, columns, sorting).map((row) => (
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

export function TextArea({ label, value, onInput, hint, invalid }: {
  label: string; value: string; onInput: (value: string) => void; hint?: string; invalid?: boolean;
}): JSX.Element {
  return (
    <Field label={label} hint={hint}>
      {(id) => <textarea id={id} rows={4} value={value} spellcheck={false} aria-invalid={invalid ? "true" : undefined}
        onInput={(event) => onInput(event.currentTarget.value)} />}
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

// The number of rows of a page: few on a narrow screen, where each is a card.
export function rowsOf(wide: number): number {
  return matchMedia("(max-width: 760px)").matches ? Math.min(wide, 12) : wide;
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
