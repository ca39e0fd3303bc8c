// SPDX-License-Identifier: Apache-2.0
//
// Commands of the command line tool, quoted for a shell.

import { spanOption, type Moment } from "./time";
import type { BulkAction, Filter } from "./types";

// A word for a shell. Control characters, and others that a terminal would hide or act upon, become escapes of $'...', which
// bash, zsh and ksh read.
export function quote(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const escaped = [...word].map((one) => {
    if (one === "\\" || one === "'") return `\\${one}`;
    if (!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(one)) return one;
    // Octal has a fixed length, so that a digit may follow.
    return [...new TextEncoder().encode(one)].map((byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  });
  return `$'${escaped.join("")}'`;
}

export type Options = [name: string, value: string | true][];

// A command line. `server` are the options that name the server. Values that begin with a dash are joined to their option, and
// arguments that do stand behind "--", so that none is taken for an option.
export function commandLine(server: string[], words: string, args: string[], options: Options = []): string {
  const parts = ["duetime", words];
  for (const [name, value] of [...pairs(server), ...options]) {
    if (value === true) parts.push(name);
    else if (value.startsWith("-")) parts.push(quote(`${name}=`) + quote(value));
    else parts.push(name, quote(value));
  }
  if (args.some((one) => one.startsWith("-"))) parts.push("--");
  return [...parts, ...args.map(quote)].join(" ");
}

function pairs(words: string[]): Options {
  const found: Options = [];
  for (let i = 0; i + 1 < words.length; i += 2) found.push([words[i] ?? "", words[i + 1] ?? ""]);
  return found;
}

export function filterOptions(filter: Filter | undefined): Options {
  const options: Options = [];
  if (filter?.key_prefix) options.push(["--key-prefix", filter.key_prefix]);
  for (const [name, value] of Object.entries(filter?.labels ?? {})) options.push(["--label", `${name}=${value}`]);
  if (filter?.start_time) options.push(["--from", filter.start_time]);
  if (filter?.end_time) options.push(["--to", filter.end_time]);
  if (filter?.message_id) options.push(["--id", filter.message_id]);
  return options;
}

// The command of a bulk operation. Without a filter, the tool wants to be told --all.
export function bulkCommand(
  server: string[],
  bulk: { topic: string; action: BulkAction; filter?: Filter; shiftMs?: number },
): string {
  const options = filterOptions(bulk.filter);
  if (options.length === 0) options.push(["--all", true]);
  if (bulk.shiftMs !== undefined) options.push(["--by", spanOption(bulk.shiftMs)]);
  const verb = bulk.action.replace("BULK_ACTION_", "").toLowerCase();
  return commandLine(server, `bulk ${verb}`, [bulk.topic], options);
}

// The options that say when a message is due.
export function momentOptions(moment: Moment): Options {
  if ("delayMs" in moment) return [["--in", spanOption(moment.delayMs)]];
  if ("time" in moment) return [["--at", moment.time]];
  return [["--local", moment.local], ["--tz", moment.zone]];
}

// A command whose last argument is a payload. The tool takes "-" for its standard input.
export function payloadCommand(server: string[], words: string, args: string[], payload: string, options: Options): string {
  const given = payload === "" ? args : [...args, payload];
  return `${payload === "-" ? "printf %s - | " : ""}${commandLine(server, words, given, options)}`;
}
