// SPDX-License-Identifier: Apache-2.0
//
// The settings of topics and subscriptions as tables: a field for people, its path in the protos, and its option.

import type { Options } from "./command";
import { bytesText } from "./text";
import { durationMs, parseSpan, spanJson, spanOption } from "./time";
import type { ServerInfo } from "./types";

// What the meaning of an empty field depends on: the name of the topic, and the limits of the server.
export interface Around {
  name: string;
  limits?: ServerInfo["limits"];
}

export interface SettingField {
  // The path below `settings`: "rate.burst".
  path: string;
  option: string;
  label: string;
  kind: "count" | "real" | "span" | "text" | "choice" | "flag";
  hint?: string;
  // The word of the command line for an empty field.
  reset: string;
  // What an empty field means, for people.
  empty?: string | ((around: Around, texts: Texts) => string);
  // Of a choice or a flag: the value in JSON as text, the text for people, and the word of the command line.
  choices?: [value: string, text: string, word: string][];
}

// Fields that an update sets together, and the path in its mask. The other fields have no meaning without the first.
export interface SettingGroup {
  mask: string;
  fields: SettingField[];
}

export type Texts = Record<string, string>;
type Tree = { [name: string]: Tree | string | number | boolean | undefined };

const one = (path: string, option: string, label: string, kind: SettingField["kind"], reset: string, empty: SettingField["empty"],
  hint?: string): SettingGroup => ({
  mask: path,
  fields: [{ path, option, label, kind, reset, empty, hint }],
});

const serversLimit = (limit: string | undefined): string => (limit === undefined ? "the server's" : `${limit}, the server's`);
const spanOf = (limit: string | number | boolean | undefined): string | undefined => (limit === undefined ? undefined : spanOption(durationMs(String(limit))));
// A default delay gives way to the other delay of the policy.
const delay = (usual: string, path: string, pick: (...ms: number[]) => number) => (_around: Around, texts: Texts): string => {
  const other = parseSpan(texts[path] ?? "");
  return other === null ? usual : spanOption(pick(parseSpan(usual) ?? 0, other));
};

// A setting that is true or false.
export const flag = (path: string, option: string, label: string, hint?: string): SettingGroup => ({
  mask: path,
  fields: [{ path, option, label, kind: "flag", reset: "no", hint, choices: [["false", "no", "no"], ["true", "yes", "yes"]] }],
});

export const topicSettings: SettingGroup[] = [
  one("max_pending", "--max-pending", "Pending messages at most", "count", "0", "no limit", "empty: no limit"),
  one("max_payload_bytes", "--max-payload-bytes", "Payload bytes at most", "count", "0",
    ({ limits }) => serversLimit(limits && bytesText(String(limits.payload_bytes_max))), "empty: the server's limit"),
  one("default_ttl", "--default-ttl", "Time to live", "span", "none", "none", "of messages without one: 1h; empty: none"),
  one("tombstone_retention", "--tombstone-retention", "Remembers ended messages for", "span", "default",
    ({ limits }) => serversLimit(spanOf(limits?.tombstone_retention)), "7d; empty: the server's"),
  {
    mask: "rate",
    fields: [
      { path: "rate.messages_per_second", option: "--rate", label: "Deliveries per second", kind: "count", reset: "none", empty: "no limit",
        hint: "to each subscription; empty: no limit" },
      { path: "rate.burst", option: "--burst", label: "At once after a quiet time", kind: "count", reset: "", empty: "those of one second",
        hint: "empty: those of one second" },
    ],
  },
  {
    mask: "minute_limit",
    fields: [
      { path: "minute_limit.messages", option: "--minute-limit", label: "Due in one minute at most", kind: "count", reset: "0", empty: "no limit",
        hint: "empty: no limit" },
      { path: "minute_limit.policy", option: "--minute-policy", label: "Beyond that", kind: "choice", reset: "",
        choices: [["POLICY_WARN", "accept and warn", "warn"], ["POLICY_REFUSE", "refuse", "refuse"], ["POLICY_SPREAD", "deliver later", "spread"]] },
      { path: "minute_limit.spread_max", option: "--spread-max", label: "Later by at most", kind: "span", reset: "", empty: "not later",
        hint: "with \"deliver later\": 1h" },
    ],
  },
  one("dead_letter_topic", "--dead-letter-topic", "Dead-letter topic", "text", "", ({ name }) => `${name || "NAME"}.dlq`, "empty: NAME.dlq"),
];

export const subscriptionSettings: SettingGroup[] = [
  one("lease_duration", "--lease", "Lease", "span", "default", "30s", "of subscribers that ask for none; empty: 30s"),
  one("retry.min_backoff", "--min-backoff", "First delay before a retry", "span", "default", delay("1s", "retry.max_backoff", Math.min),
    "0s: at once; empty: 1s"),
  one("retry.max_backoff", "--max-backoff", "Longest delay", "span", "default", delay("10m", "retry.min_backoff", Math.max), "empty: 10m"),
  one("retry.multiplier", "--multiplier", "Each delay is longer by the factor", "real", "2", "2", "empty: 2"),
  one("retry.jitter", "--jitter", "Random part of a delay", "real", "0.2", "0.2", "0 to 1; empty: 0.2"),
  one("retry.max_attempts", "--max-attempts", "Failed attempts at most", "count", "0", "no limit", "then a dead letter; empty: no limit"),
  one("dead_letter_topic", "--dead-letter-topic", "Dead-letter topic", "text", "", "that of the topic", "empty: the topic's"),
  one("retention", "--retention", "Keeps due messages for", "span", "none", "no limit", "2d; empty: no limit"),
  one("retention_max_messages", "--retention-max", "Waiting messages at most", "count", "0", "no limit", "empty: no limit"),
  {
    mask: "retention_policy",
    fields: [{ path: "retention_policy", option: "--retention-policy", label: "Beyond the retention", kind: "choice", reset: "drop",
      choices: [["RETENTION_POLICY_DROP", "drop", "drop"], ["RETENTION_POLICY_DEAD_LETTER", "make dead letters", "dead-letter"]] }],
  },
];

function valueAt(settings: object, path: string): Tree[string] {
  return path.split(".").reduce<Tree[string]>((tree, name) => (typeof tree === "object" ? tree[name] : undefined), settings as Tree);
}

// The texts of all fields, by path.
export function textsOf(groups: SettingGroup[], settings: object): Texts {
  const texts: Texts = {};
  for (const field of groups.flatMap((group) => group.fields)) {
    const value = valueAt(settings, field.path);
    if (field.choices !== undefined) {
      const known = field.choices.find(([name]) => name === String(value));
      texts[field.path] = known?.[0] ?? field.choices[0]?.[0] ?? "";
    } else if (field.kind === "span") {
      texts[field.path] = value === undefined ? "" : spanOption(durationMs(String(value)));
    } else {
      // 0 means "empty" where an empty field is reset to 0.
      const empty = value === undefined || (Number(value) === 0 && field.reset === "0");
      texts[field.path] = empty ? "" : String(value);
    }
  }
  return texts;
}

export interface SettingFact {
  label: string;
  value: string;
  // True if the field is empty: the value is the default.
  unset: boolean;
}

// The labels and values for people. Fields without a meaning are left out.
export function factsOf(groups: SettingGroup[], texts: Texts, around: Around): SettingFact[] {
  return groups
    .flatMap((group) => (isOff(group, texts) ? group.fields.slice(0, 1) : group.fields))
    .map((field) => ({ label: field.label, value: shownText(field, texts, around), unset: (texts[field.path] ?? "") === "" }));
}

// True if the first field of several is empty, so that the others have no meaning.
function isOff({ fields }: SettingGroup, texts: Texts): boolean {
  return fields.length > 1 && texts[fields[0]?.path ?? ""] === "";
}

function choiceText(field: SettingField, text: string): string {
  return field.choices?.find(([value]) => value === text)?.[1] ?? text;
}

// Why a text is no value of the field; null if it is one.
export function refusalOf(field: SettingField, text: string): string | null {
  if (text === "") return null;
  if (field.kind === "count" && !/^\d{1,18}$/.test(text)) return `${field.label}: a whole number`;
  if (field.kind === "real" && !/^\d+(\.\d+)?$/.test(text)) return `${field.label}: a number such as 1.5`;
  if (field.kind === "span" && parseSpan(text) === null) return `${field.label}: a duration such as 1h30m`;
  return null;
}

export interface SettingsChange {
  // Below `settings`, in the form of the JSON.
  settings: object;
  // The JSON of a FieldMask.
  mask: string;
  options: Options;
  // What changes, for people.
  changes: { label: string; from: string; to: string }[];
  refusal?: string;
}

// The update that makes `before` into `after`.
export function changeOf(groups: SettingGroup[], before: Texts, after: Texts, around: Around): SettingsChange {
  const settings: Tree = {};
  const change: SettingsChange = { settings, mask: "", options: [], changes: [] };
  const masks: string[] = [];
  for (const group of groups) {
    const { mask, fields } = group;
    const changed = fields.filter((field) => before[field.path] !== after[field.path]);
    if (changed.length === 0) continue;
    masks.push(`settings.${mask}`.replace(/_([a-z])/g, (_all, letter: string) => letter.toUpperCase()));
    for (const field of changed) {
      change.changes.push({ label: field.label, from: shownText(field, before, around), to: shownText(field, after, around) });
    }
    const off = isOff(group, after);
    for (const [index, field] of fields.entries()) {
      const text = after[field.path] ?? "";
      change.refusal ??= refusalOf(field, text) ?? undefined;
      if (off && index > 0) continue;
      // An option of a group that is not needed any more is left out, because the update sets the whole group.
      if (text === "" && fields.length > 1 && index > 0) continue;
      change.options.push([field.option, wordOf(field, text)]);
      if (text !== "") setAt(settings, field.path, jsonOf(field, text));
    }
  }
  change.mask = masks.join(",");
  if (masks.length === 0) change.refusal ??= "Nothing is changed yet.";
  return change;
}

function shownText(field: SettingField, texts: Texts, around: Around): string {
  const text = choiceText(field, texts[field.path] ?? "");
  if (text !== "") return text;
  return (typeof field.empty === "function" ? field.empty(around, texts) : field.empty) ?? "none";
}

function wordOf(field: SettingField, text: string): string {
  if (text === "") return field.reset;
  if (field.choices !== undefined) return field.choices.find(([value]) => value === text)?.[2] ?? "";
  return field.kind === "span" ? spanOption(parseSpan(text) ?? 0) : text;
}

function jsonOf(field: SettingField, text: string): string | number | boolean {
  if (field.kind === "flag") return text === "true";
  if (field.kind === "span") return spanJson(parseSpan(text) ?? 0);
  return field.kind === "real" || field.path === "retry.max_attempts" ? Number(text) : text;
}

function setAt(settings: Tree, path: string, value: string | number | boolean): void {
  const names = path.split(".");
  const last = names.pop() ?? "";
  let tree = settings;
  for (const name of names) tree = (tree[name] ??= {}) as Tree;
  tree[last] = value;
}
