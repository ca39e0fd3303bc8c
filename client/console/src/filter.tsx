// SPDX-License-Identifier: Apache-2.0
//
// The form of a filter. Its texts are parameters of the page's address, so that a search can be kept and sent.

import type { JSX } from "preact";
import { parseTime } from "./time";
import type { Filter, Labels } from "./types";
import { TextField } from "./ui";

export type Params = Record<string, string | undefined>;

// "customer=42, kind=reminder". Null if a part has no "=".
export function parseLabels(text: string): Labels | null {
  const labels: Labels = {};
  for (const part of text.split(",").map((one) => one.trim()).filter((one) => one !== "")) {
    const at = part.indexOf("=");
    if (at <= 0) return null;
    labels[part.slice(0, at)] = part.slice(at + 1);
  }
  return labels;
}

// A time of the form: "+2h" and "-15m" are not accepted here, because the address would mean another time later.
function timeOf(text: string | undefined): string | undefined {
  const ms = parseTime(text ?? "");
  return ms === null ? undefined : new Date(ms).toISOString();
}

// The filter of the parameters, and why a text cannot be read.
export function filterOf(params: Params): { filter: Filter; refusal?: string } {
  const labels = parseLabels(params.labels ?? "");
  const filter: Filter = { start_time: timeOf(params.from), end_time: timeOf(params.to) };
  if (params.prefix) filter.key_prefix = params.prefix;
  if (labels !== null && Object.keys(labels).length > 0) filter.labels = labels;
  if (labels === null) return { filter, refusal: "Labels are written as name=value, with commas between them." };
  if (params.from && filter.start_time === undefined) return { filter, refusal: "The first time cannot be read." };
  if (params.to && filter.end_time === undefined) return { filter, refusal: "The second time cannot be read." };
  return { filter };
}

// The value of an input of type datetime-local.
function inputTime(text: string | undefined): string {
  const ms = parseTime(text ?? "");
  if (ms === null) return "";
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return at.toISOString().slice(0, 19);
}

export function FilterFields({ params, set }: { params: Params; set: (change: Params) => void }): JSX.Element {
  return (
    <>
      <TextField label="Key begins with" value={params.prefix ?? ""} onInput={(prefix) => set({ prefix })} placeholder="order-17" />
      <TextField label="Labels" value={params.labels ?? ""} onInput={(labels) => set({ labels })} placeholder="customer=42, kind=call"
        invalid={parseLabels(params.labels ?? "") === null} />
      <TextField label="Due at or after" type="datetime-local" value={inputTime(params.from)} onInput={(from) => set({ from })} />
      <TextField label="Due before" type="datetime-local" value={inputTime(params.to)} onInput={(to) => set({ to })} />
    </>
  );
}
