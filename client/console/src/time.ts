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

// "0.5 ms", "350 ms", "12 s", "3 min 5 s", "2 h 10 min", "5 d 3 h": two units at most.
export function spanText(ms: number): string {
  const size = Math.abs(ms);
  if (size > 0 && size < 1) return `${size.toPrecision(1)} ms`;
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

// A moment in words, by the clocks of a zone: "Thursday 24 December 2026 at 18:00:00 CET".
export function momentText(ms: number, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", {
    timeZone: zone, weekday: "long", day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZoneName: "short",
  }).format(ms);
}

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

// The zones that the browser knows, its own and UTC first.
export function zones(): string[] {
  return [...new Set([ownZone(), "UTC", ...Intl.supportedValuesOf("timeZone")])];
}

// "2026-12-24": the day of a moment by the clocks of a zone.
function dayIn(zone: string, ms: number): string {
  return new Intl.DateTimeFormat("sv-SE", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" }).format(ms);
}

// The day after "2026-12-31".
function dayAfter(day: string): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + dayMs).toISOString().slice(0, 10);
}

// "18:00" of "18:00", "6pm" or "6:00 pm"; null if it is no time of day.
function clockOf(text: string): string | null {
  const match = /^(\d{1,2})(?::(\d\d)(?::(\d\d))?)?\s*([ap]m)?$/i.exec(text);
  if (match === null || (match[2] === undefined && match[4] === undefined)) return null;
  let hour = Number(match[1]);
  if (match[4] !== undefined) {
    if (hour < 1 || hour > 12) return null;
    hour = (hour % 12) + (match[4].toLowerCase() === "pm" ? 12 : 0);
  }
  if (hour > 23 || Number(match[2] ?? 0) > 59 || Number(match[3] ?? 0) > 59) return null;
  return `${two(hour)}:${match[2] ?? "00"}${match[3] === undefined ? "" : `:${match[3]}`}`;
}

// When a message is due, as a person writes it.
export type Moment = { delayMs: number } | { time: string } | { local: string; zone: string };

const unitWords = /(\d)\s*(?:milliseconds?|(seconds?|secs?)|(minutes?|mins?)|(hours?)|(days?)|(weeks?))\b/g;

// Reads "now", "in 5 minutes", "+1h30m", "2d", "today 18:00", "tomorrow 9am", "2026-12-24 18:00" by the clocks of `zone`, and
// "2026-12-24T18:00:00+08:00". Null if it is none.
export function parseMoment(text: string, zone: string, now: number): Moment | null {
  const plain = text.trim().toLowerCase();
  if (plain === "now") return { delayMs: 0 };
  const span = plain.replace(/^(in\s+|\+)/, "").replace(unitWords, (_all, digit: string, s?: string, m?: string, h?: string, d?: string, w?: string) =>
    `${digit}${s ? "s" : m ? "m" : h ? "h" : d ? "d" : w ? "w" : "ms"}`);
  const delayMs = parseSpan(span);
  if (delayMs !== null) return delayMs < 0 ? null : { delayMs };
  const near = /^(today|tomorrow)\s+(?:at\s+)?(.+)$/.exec(plain);
  const dated = /^(\d{4}-\d\d-\d\d)(?:t|\s+(?:at\s+)?)(.+?)(z|[+-]\d\d:\d\d)?$/.exec(plain);
  const clock = clockOf((near ?? dated)?.[2] ?? "");
  if (clock === null) return null;
  const today = dayIn(zone, now);
  if (near !== null) return { local: `${near[1] === "tomorrow" ? dayAfter(today) : today}T${clock}`, zone };
  if (dated === null || Number.isNaN(Date.parse(`${dated[1]}T00:00:00Z`))) return null;
  const seconds = clock.length === 5 ? `${clock}:00` : clock;
  return dated[3] === undefined ? { local: `${dated[1]}T${clock}`, zone } : { time: `${dated[1]}T${seconds}${dated[3].toUpperCase()}` };
}
