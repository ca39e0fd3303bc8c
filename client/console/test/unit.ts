// SPDX-License-Identifier: Apache-2.0
//
// The pure functions of the page, as tables.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { barsOf, bucketFor } from "../src/bucket";
import { commandLine, momentOptions, payloadCommand, quote } from "../src/command";
import { parseLabels } from "../src/filter";
import { mergedOf } from "../src/history";
import { histogramOf, parseMetrics, quantileOf, sumOf } from "../src/metrics";
import { changeOf, factsOf, flag, subscriptionSettings, textsOf, topicSettings } from "../src/settings";
import { payloadRefusal } from "../src/payload";
import { readForm } from "../src/schedule_dialog";
import { base64Of, countText, hexText, prettyJson, utf8Of, visibleText } from "../src/text";
import { durationMs, momentText, parseMoment, parseSpan, spanJson, spanOption, spanText } from "../src/time";
import type { Test } from "./harness";
import { hostileKey, hostileText } from "./samples";

// Compares the results of a function with a table of arguments and results.
function table<In, Out>(name: string, of: (input: In) => Out, rows: [In, Out][]): Test {
  return [name, () => {
    for (const [input, expected] of rows) assert.deepEqual(of(input), expected, JSON.stringify(input));
  }];
}

const words = ["", "plain", "two words", "it's", "$HOME `id` $(id)", "a\\b\\", "-x", "--", "*?[a]", "~", "#", "line\nbreak", "\u001b[31m", "\u202e'1", "é",
  "a=b", hostileKey, hostileText];

const around = { name: "orders", limits: { payload_bytes_max: "1048576", tombstone_retention: "86400s" } };
// A Sunday night in Berlin, where the clocks were set back eight days before.
const now = Date.parse("2026-11-01T23:30:00Z");

export function unitTests(): Test[] {
  return [
    ["a shell reads each quoted word as it was", () => {
      const result = spawnSync("bash", ["-c", `printf '%s\\0' ${words.map(quote).join(" ")}`]);
      assert.deepEqual(result.stdout.toString().split("\0").slice(0, -1), words);
    }],
    table("no command hides a character of its words", (word: string) => /[\p{Cc}\p{Cf}]/u.test(quote(word)), words.map((one) => [one, false])),
    table("commands", (args: Parameters<typeof commandLine>) => commandLine(...args), [
      [[[], "topic pause", ["orders"]], "duetime topic pause orders"],
      [[["--server", "h:1"], "cancel", ["id"], [["--stop-redelivery", true]]], "duetime cancel --server h:1 --stop-redelivery id"],
      [[[], "topic pause", ["-rf"]], "duetime topic pause -- -rf"],
      [[[], "list", ["t"], [["--key-prefix", "-x y"], ["--label", "a=it's"]]], "duetime list --key-prefix='-x y' --label 'a=it'\\''s' t"],
      [[[], "topic update", ["t"], [["--dead-letter-topic", ""]]], "duetime topic update --dead-letter-topic '' t"],
    ]),
    table("numbers keep all digits", countText, [["9007199254740993", "9\u2009007\u2009199\u2009254\u2009740\u2009993"], ["0", "0"], [undefined, "0"]]),
    table("durations of people", parseSpan, [["1h30m", 5_400_000], ["-15m", -900_000], ["500ms", 500], ["1.5s", 1_500], ["2 d", 172_800_000], ["", null], ["5", null], ["1x", null]]),
    table("durations for the command line", spanOption, [[5_400_000, "1h30m"], [-900_000, "-15m"], [0, "0s"], [1_500, "1s500ms"]]),
    table("durations in JSON", spanJson, [[1_500, "1.500s"], [-900_000, "-900.000s"], [0, "0.000s"]]),
    table("durations from JSON", durationMs, [["1.5s", 1_500], ["-0.250s", -250]]),
    table("durations as text", spanText, [[0, "0 ms"], [0.5, "0.5 ms"], [350, "350 ms"], [1_500, "1.5 s"], [185_000, "3 min 5 s"], [90_061_000, "1 d 1 h"], [86_400_000 * 400, "1 y 35 d"]]),
    table("hidden characters are shown", visibleText, [["a\nb", "a\\nb"], ["\u202egnp", "\\u202egnp"], ["é ☃", "é ☃"]]),
    table("bytes that are not UTF-8 are no text", (bytes: number[]) => utf8Of(Uint8Array.from(bytes)), [[[104, 105], "hi"], [[255], null], [[], ""]]),
    table("JSON keeps its numbers", prettyJson, [
      [`{"n":9007199254740993,"a":[],"b":[1,{"c":"x,y:{}"}]}`, `{\n  "n": 9007199254740993,\n  "a": [],\n  "b": [\n    1,\n    {\n      "c": "x,y:{}"\n    }\n  ]\n}`],
      ["12", null], ["not", null], ["{", null],
    ]),
    ["hex shows offset, bytes and text", () => assert.equal(hexText(Uint8Array.from([0, 104, 105, 255])), `00000000  00 68 69 ff${" ".repeat(36)}  .hi.`)],
    table("labels of the form", parseLabels, [["a=1, b=x=y", { a: "1", b: "x=y" }], ["", {}], ["a", null], ["=1", null]]),
    table("the bucket follows the range", (ms: number) => bucketFor(ms)[0], [
      [60_000, "BUCKET_SECOND"], [3_600_000, "BUCKET_MINUTE"], [86_400_000 * 7, "BUCKET_HOUR"], [86_400_000 * 366, "BUCKET_DAY"],
    ]),
    ["metrics are summed over their labels", () => {
      const metrics = parseMetrics(`# HELP x y\na{shard="0"} 1\na{shard="1",knob="b\\"c"} 2\nh_bucket{le="0.1"} 3\nh_bucket{le="+Inf"} 4\n`);
      assert.equal(sumOf(metrics, "a"), 3);
      assert.equal(sumOf(metrics, "none"), undefined);
      const buckets = histogramOf(metrics, "h");
      assert.deepEqual(buckets, [{ le: 0.1, count: 3 }, { le: Infinity, count: 1 }]);
      assert.equal(quantileOf(buckets, 0.5), 0.1);
      assert.equal(quantileOf(buckets, 0.99), Infinity);
    }],
    ["a change of settings names what it changes, and no more", () => {
      const before = textsOf(topicSettings, { max_pending: "5", rate: { messages_per_second: "10", burst: "3" } });
      const change = changeOf(topicSettings, before, { ...before, max_pending: "", "rate.messages_per_second": "9007199254740993", default_ttl: "90m" }, around);
      assert.equal(change.refusal, undefined);
      assert.equal(change.mask, "settings.maxPending,settings.defaultTtl,settings.rate");
      assert.deepEqual(change.settings, { default_ttl: "5400.000s", rate: { messages_per_second: "9007199254740993", burst: "3" } });
      assert.deepEqual(change.options, [["--max-pending", "0"], ["--default-ttl", "1h30m"], ["--rate", "9007199254740993"], ["--burst", "3"]]);
    }],
    ["an emptied group is reset as a whole", () => {
      const before = textsOf(topicSettings, { rate: { messages_per_second: "10", burst: "3" } });
      const change = changeOf(topicSettings, before, { ...before, "rate.messages_per_second": "" }, around);
      assert.deepEqual([change.mask, change.settings, change.options], ["settings.rate", {}, [["--rate", "none"]]]);
    }],
    ["a setting that is true or false is one row, which can be set and cleared", () => {
      const row = [flag("quiet", "--quiet", "Quiet")];
      const off = textsOf(row, {});
      const on = textsOf(row, { quiet: true });
      assert.deepEqual([off, on, textsOf(row, { quiet: false })], [{ quiet: "false" }, { quiet: "true" }, off]);
      const set = changeOf(row, off, on, around);
      assert.deepEqual([set.mask, set.settings, set.options], ["settings.quiet", { quiet: true }, [["--quiet", "yes"]]]);
      assert.deepEqual(set.changes, [{ label: "Quiet", from: "no", to: "yes" }]);
      const clear = changeOf(row, on, off, around);
      assert.deepEqual([clear.mask, clear.settings, clear.options], ["settings.quiet", { quiet: false }, [["--quiet", "no"]]]);
      assert.deepEqual(factsOf(row, on, around), [{ label: "Quiet", value: "yes", unset: false }]);
    }],
    ["a group that is off hides its other fields, and no field of another group", () => {
      const shown = (settings: object): string[] => factsOf([...topicSettings, flag("quiet", "--quiet", "Quiet")], textsOf(topicSettings, settings), around)
        .map(({ label }) => label);
      const off = shown({});
      for (const label of ["Beyond that", "Later by at most", "At once after a quiet time"]) assert.ok(!off.includes(label), label);
      for (const label of ["Due in one minute at most", "Deliveries per second", "Dead-letter topic", "Quiet"]) assert.ok(off.includes(label), label);
      const on = shown({ minute_limit: { messages: "5", policy: "POLICY_SPREAD" } });
      for (const label of ["Beyond that", "Later by at most"]) assert.ok(on.includes(label), label);
    }],
    ["settings show what holds, also those that are not set", () => {
      const shown = (groups: typeof topicSettings, settings: object) =>
        Object.fromEntries(factsOf(groups, textsOf(groups, settings), around).map(({ label, value, unset }) => [label, unset ? `${value} by default` : value]));
      assert.deepEqual(shown(topicSettings, { max_pending: "7" }), {
        "Pending messages at most": "7", "Payload bytes at most": "1.0 MiB, the server's by default", "Time to live": "none by default",
        "Remembers ended messages for": "1d, the server's by default", "Deliveries per second": "no limit by default",
        "Due in one minute at most": "no limit by default", "Dead-letter topic": "orders.dlq by default",
      });
      const delays = (retry: object) => {
        const all = shown(subscriptionSettings, { retry });
        return [all["First delay before a retry"], all["Longest delay"]];
      };
      assert.deepEqual(delays({}), ["1s by default", "10m by default"]);
      assert.deepEqual(delays({ max_backoff: "0.5s" }), ["500ms by default", "500ms"]);
      assert.deepEqual(delays({ min_backoff: "1200s" }), ["20m", "20m by default"]);
    }],
    table("times of a form", (text: string) => parseMoment(text, "Europe/Berlin", now), [
      ["now", { delayMs: 0 }], ["in 5 minutes", { delayMs: 300_000 }], ["+1h30m", { delayMs: 5_400_000 }], ["2 days", { delayMs: 172_800_000 }], ["-5m", null],
      ["today 18:00", { local: "2026-11-02T18:00", zone: "Europe/Berlin" }], ["tomorrow at 9am", { local: "2026-11-03T09:00", zone: "Europe/Berlin" }],
      ["tomorrow 12:30 am", { local: "2026-11-03T00:30", zone: "Europe/Berlin" }], ["2026-12-24 18:00", { local: "2026-12-24T18:00", zone: "Europe/Berlin" }],
      ["2026-12-24T18:00:05", { local: "2026-12-24T18:00:05", zone: "Europe/Berlin" }], ["2026-12-24T18:00+08:00", { time: "2026-12-24T18:00:00+08:00" }],
      ["2026-12-24T18:00:00Z", { time: "2026-12-24T18:00:00Z" }], ["18:00", null], ["2026-12-24", null], ["2026-13-24 18:00", null], ["today 25:00", null],
      ["today 13pm", null], ["tomorrow", null], ["soon", null], ["", null],
    ]),
    ["the day of tomorrow is that of the calendar, also on a day of 25 hours", () => {
      assert.deepEqual(parseMoment("tomorrow 9:00", "Europe/Berlin", Date.parse("2026-10-24T22:10:00Z")), { local: "2026-10-26T09:00", zone: "Europe/Berlin" });
    }],
    table("options of a time", momentOptions, [
      [{ delayMs: 5_400_000 }, [["--in", "1h30m"]]], [{ time: "2026-12-24T18:00:00Z" }, [["--at", "2026-12-24T18:00:00Z"]]],
      [{ local: "2026-12-24T18:00", zone: "Europe/Berlin" }, [["--local", "2026-12-24T18:00"], ["--tz", "Europe/Berlin"]]],
    ]),
    ["a moment in words names its zone", () => assert.match(momentText(now, "Europe/Berlin"), /^Monday,? 2 November 2026.* 00:30:00 (CET|GMT\+1)$/)],
    table("a payload that is not JSON is refused, unless it is text", (text: string) => [payloadRefusal({ text, kind: "json" }) === undefined, payloadRefusal({ text, kind: "text" })], [
      ["", [true, undefined]], [`{"a":1}`, [true, undefined]], ["hello", [false, undefined]], [`{"a":1,}`, [false, undefined]],
    ]),
    table("payloads of commands", (payload: string) => payloadCommand([], "schedule", ["t"], payload, [["--in", "1m"]]), [
      ["hi", "duetime schedule --in 1m t hi"], ["", "duetime schedule --in 1m t"], ["-", "printf %s - | duetime schedule --in 1m -- t -"],
    ]),
    ["bytes of a text", () => assert.equal(base64Of("é☃"), Buffer.from("é☃").toString("base64"))],
    ["the form of a message becomes a request and its options", () => {
      const form = { topic: "t", when: "in 1h", zone: "UTC", key: "k", conflict: "ON_CONFLICT_REPLACE", labels: "a=b", attributes: "c=d", ordering: "", ttl: "5m" };
      assert.deepEqual(readForm(form, now), {
        request: { topic: "t", delay: "3600.000s", key: "k", on_conflict: "ON_CONFLICT_REPLACE", labels: { a: "b" }, attributes: { c: "d" }, ttl: "300.000s" },
        options: [["--in", "1h"], ["--key", "k"], ["--on-conflict", "replace"], ["--label", "a=b"], ["--attr", "c=d"], ["--ttl", "5m"]],
      });
      for (const wrong of [{ topic: "" }, { when: "" }, { when: "soon" }, { labels: "a" }, { ttl: "0s" }]) {
        assert.equal(typeof readForm({ ...form, ...wrong }, now), "string", JSON.stringify(wrong));
      }
    }],
    ["a backlog has bars of its own", () => {
      const minute = 60_000;
      const at = (ms: number, messages: string) => ({ start_time: new Date(ms).toISOString(), count: { messages, bytes: "0" } });
      const forecast = {
        buckets: [at(now - minute, "900"), at(now - 30_000, "150"), at(now + 30_000, "3")], overdue: { messages: "50", bytes: "0" },
        later: { messages: "0", bytes: "0" }, total: { messages: "0", bytes: "0" }, start_time: "", end_time: "",
      };
      const bars = barsOf(forecast, minute, now, 50 + 900 + 140);
      assert.deepEqual([bars.overdue, bars.ahead, bars.hasOverdue], [[900, 140, null], [null, 10, 3], true]);
      assert.deepEqual(barsOf(forecast, minute, now, undefined).ahead, [null, 150, 3], "the bucket of this moment is ahead if nothing is known");
      assert.equal(barsOf({ ...forecast, buckets: [at(now - 30_000, "10")] }, minute, now, 50).hasOverdue, false);
    }],
    ["the history goes on with the samples of the page", () => {
      const history = { period_ms: 30_000, times: [1_000, 31_000, 61_000], values: { acked: [null, 2, 3] } };
      const samples = [{ ms: 60_000, counts: { acked: 10 } }, { ms: 62_000, counts: { acked: 30 } }, { ms: 64_000, counts: { acked: 0 } }];
      assert.deepEqual(mergedOf(history, samples, ["acked"]), { times: [1_000, 31_000, 62_000, 64_000], values: { acked: [null, 2, 10, 0] } });
      assert.deepEqual(mergedOf(undefined, [], ["acked"]), { times: [], values: { acked: [] } });
    }],
    table("settings that are refused", (after: Record<string, string>) => {
      const before = textsOf(subscriptionSettings, {});
      return changeOf(subscriptionSettings, before, { ...before, ...after }, around).refusal !== undefined;
    }, [[{}, true], [{ "retry.max_attempts": "x" }, true], [{ lease_duration: "5" }, true], [{ "retry.jitter": "0.5" }, false]]),
  ];
}
