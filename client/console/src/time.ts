// SPDX-License-Identifier: Apache-2.0
//
// Times and durations, as pure functions. The page shows times in the browser's zone.

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

// Milliseconds since 1970 of a time in RFC 3339; NaN if there is none.
export function msOf(time: string | undefined): number {
  return time === undefined ? NaN : Date.parse(time);
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

// "2026-11-24 09:30:05", in the browser's zone; with milliseconds if there are any.
export function localText(ms: number, now = NaN): string {
  const at = new Date(ms);
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const millis = at.getMilliseconds();
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const text = millis === 0 ? clock : `${clock}.${String(millis).padStart(3, "0")}`;
  const today = !Number.isNaN(now) && new Date(now).toDateString() === at.toDateString();
  return today ? text : `${date} ${text}`;
}

export function utcText(ms: number): string {
  return `${new Date(ms).toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

// "350 ms", "12 s", "3 min 5 s", "2 h 10 min", "5 d 3 h": two units at most.
export function spanText(ms: number): string {
  const size = Math.abs(ms);
  if (size < secondMs) return `${Math.round(size)} ms`;
  if (size < 10 * secondMs) return `${(size / secondMs).toFixed(1)} s`;
  const units: [number, string][] = [[365 * dayMs, "y"], [dayMs, "d"], [hourMs, "h"], [minuteMs, "min"], [secondMs, "s"]];
  const first = units.findIndex(([length]) => size >= length);
  let rest = size;
  return units.slice(first, first + 2).flatMap(([length, unit]) => {
    const count = Math.floor(rest / length);
    rest -= count * length;
    return count > 0 ? [`${count} ${unit}`] : [];
  }).join(" ");
}

// "in 5 min", "3 s ago".
export function relativeText(ms: number, now: number): string {
  const distance = ms - now;
  return distance >= 0 ? `in ${spanText(distance)}` : `${spanText(distance)} ago`;
}

// Milliseconds of the JSON of a duration, "1.5s".
export function durationMs(text: string | undefined): number {
  return text === undefined ? NaN : Number(text.replace(/s$/, "")) * secondMs;
}

const unitMs: Record<string, number> = {
  ms: 1, s: secondMs, m: minuteMs, min: minuteMs, h: hourMs, d: dayMs, w: 7 * dayMs,
};

// Reads a duration as people and the command line write it, "1h30m", "-15m". Null if it is none.
export function parseSpan(text: string): number | null {
  const match = /^(-?)((?:\d+(?:\.\d+)?\s*(?:ms|min|[smhdw])\s*)+)$/.exec(text.trim());
  if (match === null) return null;
  let ms = 0;
  for (const part of (match[2] ?? "").matchAll(/(\d+(?:\.\d+)?)\s*(ms|min|[smhdw])/g)) {
    ms += Number(part[1]) * (unitMs[part[2] ?? ""] ?? NaN);
  }
  return (match[1] === "-" ? -1 : 1) * Math.round(ms);
}

// The form that the command line reads: "1h30m", "-15m", "500ms".
export function spanOption(ms: number): string {
  let rest = Math.abs(ms);
  let text = "";
  for (const [unit, length] of [["d", dayMs], ["h", hourMs], ["m", minuteMs], ["s", secondMs], ["ms", 1]] as const) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count > 0) text += `${count}${unit}`;
  }
  return (ms < 0 ? "-" : "") + (text === "" ? "0s" : text);
}

// The JSON of a duration.
export function spanJson(ms: number): string {
  return `${ms < 0 ? "-" : ""}${Math.floor(Math.abs(ms) / secondMs)}.${String(Math.abs(ms) % secondMs).padStart(3, "0")}s`;
}

// Reads a time: that of an input of type datetime-local, in the browser's zone, or one with its own zone. Null if it is none.
export function parseTime(text: string): number | null {
  const ms = Date.parse(text.trim().replace(" ", "T"));
  return text.trim() === "" || Number.isNaN(ms) ? null : ms;
}
