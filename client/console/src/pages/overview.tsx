// SPDX-License-Identifier: Apache-2.0
//
// The overview: what the server does now.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call, getMetrics } from "../api";
import { ratesOf, useApp, useNow } from "../app";
import { barsOf } from "../bucket";
import { Chart } from "../chart";
import { barLines } from "../forecast";
import { ServerLateness, ServerRates } from "../history";
import { histogramOf, parseMetrics, quantileOf, sumOf, type Metric } from "../metrics";
import { useLoaded } from "../poll";
import { href } from "../route";
import { bytesText, countText, shortText, wordOf } from "../text";
import { msOf, spanText } from "../time";
import type { Forecast, ServerInfo } from "../types";
import { ScheduleDialog } from "../schedule_dialog";
import { Act, CommandBox, Count, Empty, Problem, Tile, Waiting } from "../ui";
import { commandLine } from "../command";

const hourBuckets = 60;
const minuteMs = 60_000;

export function OverviewPage(): JSX.Element {
  const { info, about, trouble } = useApp();
  const forecast = useLoaded("hour", () => call("Admin/Forecast", { bucket: "BUCKET_MINUTE", buckets: hourBuckets }), 5_000);
  // What is due now, to tell it from what the rest of this minute brings.
  // A test clock may stand still at the very time of a message: what is due within its second counts, too.
  const testMs = info?.clock_state === "CLOCK_STATE_TEST" ? msOf(info.server_time) : undefined;
  const overdue = useLoaded("overdue", () => call("Admin/Forecast", {
    bucket: "BUCKET_SECOND", buckets: 1, ...(testMs === undefined ? {} : { start_time: new Date(testMs + 1_000).toISOString() }),
  }), 5_000);
  const metrics = useLoaded("metrics", async () => (about.metrics ? parseMetrics(await getMetrics()) : null), about.metrics ? 5_000 : 0);
  const [scheduling, setScheduling] = useState(false);
  if (info === undefined) return trouble ? <></> : <Waiting />;
  const none = forecast.value?.total.messages === "0" && (info.counts?.accepted ?? "0") === "0";
  return (
    <>
      <div class="head"><h1>Overview</h1><span class="grow" /><Act primary onClick={() => setScheduling(true)}>Schedule a message</Act></div>
      <Notices info={info} />
      <Problem error={forecast.error} retry={forecast.reload} />
      <Tiles info={info} forecast={forecast.value} due={overdue.value?.overdue.messages} metrics={metrics.value ?? undefined} />
      {none && (
        <div class="panel">
          <Empty title="No messages yet">
            <span>Schedule one, and watch it here:</span>
            <CommandBox command={commandLine(about.options, "schedule", ["greetings", "hello"], [["--in", "1m"]])} />
          </Empty>
        </div>
      )}
      {scheduling && <ScheduleDialog topic="" onClose={() => setScheduling(false)} />}
      <Problem error={metrics.error} retry={metrics.reload} />
      {!none && (
        <div class="columns">
          <ServerRates />
          <NextHour forecast={forecast.value} due={overdue.value?.overdue.messages} />
          <ServerLateness />
          <Latenesses metrics={metrics.value} on={about.metrics} />
          <Totals info={info} />
        </div>
      )}
    </>
  );
}

function Notices({ info }: { info: ServerInfo }): JSX.Element {
  const texts: string[] = [];
  if (info.state !== "SERVING_STATE_SERVING") texts.push(`The server is ${wordOf(info.state, "SERVING_STATE_")}: it accepts no changes.`);
  if (info.disk_low) texts.push("The disk is nearly full: the server refuses new messages. Acks and cancels still work.");
  if (info.clock_state === "CLOCK_STATE_AHEAD") texts.push("The wall clock jumped ahead. The server's time does not follow until a restart.");
  if (info.clock_state === "CLOCK_STATE_SET_BACK") texts.push("The wall clock was set back, and the server's time with it: messages come later by the step.");
  if (info.damage) texts.push(`${info.damage.blocks_total} damaged blocks were found on disk: their messages are not delivered. See Server.`);
  return <>{texts.map((text) => <div key={text} class="notice" role="status"><p>{text}</p></div>)}</>;
}

function Tiles({ info, forecast, due, metrics }: { info: ServerInfo; forecast?: Forecast; due?: string; metrics?: Metric[] }): JSX.Element {
  const { about, samples } = useApp();
  const counts = info.counts ?? {};
  const rate = (name: string) => {
    const last = ratesOf(samples.slice(-6), name).filter((one) => one !== null);
    return last.length === 0 ? "-" : shortText(last.reduce((sum, one) => sum + one, 0) / last.length);
  };
  const where = [["due_ready", "ready in memory"], ["delayed", "wait for a retry"], ["blocked", "wait for their order"]]
    .flatMap(([name = "", text]) => ((counts[name] ?? "0") === "0" ? [] : [`${countText(counts[name])} ${text}`]));
  const free = metrics && sumOf(metrics, "duetime_disk_free_bytes");
  const memory = metrics && sumOf(metrics, "duetime_resident_memory_bytes");
  const onDisk = metrics && (sumOf(metrics, "duetime_store_table_bytes") ?? 0) + (sumOf(metrics, "duetime_store_wal_bytes") ?? 0);
  return (
    <div class="tiles">
      <Tile label="Pending" value={forecast ? countText(forecast.total.messages) : "-"} note={forecast && bytesText(forecast.total.bytes)} />
      <Tile label="Due now" value={due === undefined ? "-" : countText(due)} tone={due === undefined || due === "0" ? "" : "warn"}
        note={["waiting or in flight, dead letters too", ...where].join("; ")} />
      <Tile label="In flight" value={<Count value={counts.in_flight} />} note={`${countText(counts.streams)} ${counts.streams === "1" ? "stream" : "streams"}`} />
      <Tile label="Accepted per second" value={rate("accepted")} note={`${countText(counts.accepted)} since the start`} />
      <Tile label="Delivered per second" value={rate("delivered")} note={`${countText(counts.delivered)} since the start`} />
      <Tile label="Topics" value={<Count value={counts.topics} />} note={`${countText(counts.subscriptions)} ${counts.subscriptions === "1" ? "subscription" : "subscriptions"}; dead-letter topics too`} />
      <Tile label="Disk" value={free === undefined ? (info.disk_low ? "low" : about.metrics ? "…" : "enough") : `${bytesText(free)} free`} tone={info.disk_low ? "bad" : ""}
        note={onDisk === undefined ? !about.metrics && "figures need --metrics" : `${bytesText(onDisk)} used by the store`} />
      <Tile label="Memory" value={memory !== undefined ? bytesText(memory) : about.metrics ? "…" : "-"} note={about.metrics ? "of the daemon" : "needs --metrics"} />
    </div>
  );
}

function NextHour({ forecast, due }: { forecast?: Forecast; due?: string }): JSX.Element {
  const now = useNow();
  const bars = useMemo(() => barsOf(forecast, minuteMs, now, due === undefined ? undefined : Number(due)), [forecast, due]);
  const lines = useMemo(() => barLines(bars), [bars]);
  return (
    <section class="panel">
      <div class="title"><h2>Due in the next hour</h2><span class="quiet">by minute, all topics</span></div>
      {forecast === undefined ? <Waiting /> : bars.times.length === 0
        ? <Empty title="Nothing is due in the next hour"><span>{countText(forecast.later.messages)} messages are due later.</span></Empty>
        : <Chart label="Messages due in each minute of the next hour" times={bars.times} lines={lines} bars
            range={[msOf(forecast.start_time), msOf(forecast.end_time)]} height={210} />}
    </section>
  );
}

function Latenesses({ metrics, on }: { metrics: Metric[] | null | undefined; on: boolean }): JSX.Element {
  const all = metrics ? histogramOf(metrics, "duetime_delivery_lateness_seconds") : [];
  const last = all.findLastIndex((one) => one.count > 0);
  const first = all.findIndex((one) => one.count > 0);
  const buckets = all.slice(Math.max(0, first), last + 1);
  const most = Math.max(1, ...buckets.map((one) => one.count));
  const bound = (le: number) => (le === Infinity ? "more" : `≤ ${spanText(le * 1_000)}`);
  return (
    <section class="panel">
      <div class="title">
        <h2>Lateness of first deliveries</h2>
        {buckets.length > 0 && <span class="quiet">half {bound(quantileOf(all, 0.5))}, 99 % {bound(quantileOf(all, 0.99))}</span>}
      </div>
      {!on
        ? <Empty title="Not known to the console"><span>The server has no call for it. Start the console with the address of the server's
            metrics: <code>--metrics 127.0.0.1:7789</code>. It then shows lateness, memory and disk.</span></Empty>
        : !metrics ? <Waiting /> : buckets.length === 0 ? <Empty title="No delivery since the start of the server" /> : (
          <div class="bars">
            {buckets.map((one) => (
              <>
                <span class="right number">{bound(one.le)}</span>
                <div class="bar" style={{ width: `${(100 * one.count) / most}%` }} />
                <span class="right number">{countText(one.count)}</span>
              </>
            ))}
          </div>
        )}
    </section>
  );
}

function Totals({ info }: { info: ServerInfo }): JSX.Element {
  const names: [string, string][] = [
    ["acked", "acknowledged"], ["nacked", "nacked"], ["leases_lost", "leases lost"], ["cancelled", "cancelled"],
    ["dead_lettered", "dead letters"], ["dropped", "dropped"],
  ];
  return (
    <section class="panel">
      <div class="title"><h2>Since the start of the server</h2><span class="quiet">{spanText(msOf(info.server_time) - msOf(info.start_time))} ago</span></div>
      <div class="tiles many">
        {names.map(([name, text]) => <Tile key={name} label={text} value={<Count value={info.counts?.[name]} />} />)}
      </div>
      <span class="quiet">By subscription: open one of the <a href={href("topics")}>topics</a>.</span>
    </section>
  );
}
