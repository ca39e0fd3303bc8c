// SPDX-License-Identifier: Apache-2.0
//
// Text of values, as pure functions. Numbers of 64 bits stay text or bigint.

// "1,234,567". Any number of digits.
export function countText(value: string | number | bigint | undefined): string {
  const text = String(value ?? 0);
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, "\u2009");
}

// "950", "1.2 k", "3.4 M": for axes and rates.
export function shortText(value: number): string {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)} ${unit}`;
  }
  return trim(value);
}

function trim(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

// "512 B", "1.5 KiB".
export function bytesText(value: string | number | undefined): string {
  let size = Number(value ?? 0);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

// "in flight" of STATE_IN_FLIGHT. `prefix` is that of the enum.
export function wordOf(value: string | undefined, prefix = "STATE_"): string {
  return (value ?? "").replace(prefix, "").toLowerCase().replaceAll("_", " ");
}

// Characters that would hide or reorder the text around them.
const invisible = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu;

// Text in which every character can be seen: a line break is \n, others are \u202e.
export function visibleText(text: string): string {
  return text.replace(invisible, (one) => {
    const short = { "\n": "\\n", "\t": "\\t", "\r": "\\r" }[one];
    return short ?? `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

export function bytesOf(base64: string): Uint8Array {
  const binary = atob(base64);
  return Uint8Array.from(binary, (one) => one.charCodeAt(0));
}

export function base64Of(text: string): string {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

// Why a text is no JSON; null if it is.
export function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}

// The text of UTF-8 bytes; null if they are something else.
export function utf8Of(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

// Indented JSON, or null if the text is none. Numbers keep their digits: only blanks outside of strings change.
export function prettyJson(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return null;
  } catch {
    return null;
  }
  let out = "";
  let depth = 0;
  const newLine = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[{}[\]:,]|[^\s{}[\]:,"]+/g) ?? [];
  tokens.forEach((token, index) => {
    const empty = (token === "{" && tokens[index + 1] === "}") || (token === "[" && tokens[index + 1] === "]");
    const closesEmpty = (token === "}" && tokens[index - 1] === "{") || (token === "]" && tokens[index - 1] === "[");
    if (token === "{" || token === "[") {
      depth += 1;
      out += token + (empty ? "" : newLine());
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out += (closesEmpty ? "" : newLine()) + token;
    } else if (token === ",") {
      out += token + newLine();
    } else {
      out += token === ":" ? ": " : token;
    }
  });
  return out;
}

// "00000000  68 65 6c 6c 6f  hello", 16 bytes a line.
export function hexText(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = [...bytes.subarray(at, at + 16)];
    const hex = part.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((one) => (one >= 32 && one < 127 ? String.fromCharCode(one) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
