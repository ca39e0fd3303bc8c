// SPDX-License-Identifier: Apache-2.0
//
// Charts of the last hours: what the console has kept since it started, and for the server also the last minutes of this page.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { getHistory, type History } from "./api";
import { ratesOf, useApp, type Sample } from "./app";
import { Chart, type Line } from "./chart";
import { useLoaded } from "./poll";
import { shortText } from "./text";
import { spanText } from "./time";
import { Empty, Problem } from "./ui";

const reloadMs = 30_000;
const spans: [string, number][] = [["10 min", 600_000], ["1 h", 3_600_000], ["6 h", 6 * 3_600_000]];

export interface Series {
  times: number[];
  values: Record<string, (number | null)[]>;
}

// The history up to the first sample of the page, and then these.
export function mergedOf(history: History | undefined, samples: Sample[], names: string[]): Series {
  const first = samples[0]?.ms ?? Infinity;
  const kept = (history?.times ?? []).filter((ms) => ms < first).length;
  // The first sample has no rate: the line goes on from the history to the second one.
  const from = kept > 0 ? 1 : 0;
  const values: Series["values"] = {};
  for (const name of names) {
    const old = history?.values[name] ?? [];
    values[name] = [...Array.from({ length: kept }, (_unused, i) => old[i] ?? null), ...ratesOf(samples, name).slice(from)];
  }
  return { times: [...(history?.times ?? []).slice(0, kept), ...samples.slice(from).map((one) => one.ms)], values };
}

function useHistory(topic?: string): { history?: History; problem: JSX.Element | null } {
  const { about } = useApp();
  const loaded = useLoaded(`history ${topic ?? ""}`, async () => (about.history ? getHistory(topic) : undefined), reloadMs);
  return { history: loaded.value, problem: <Problem error={loaded.error} retry={loaded.reload} /> };
}

function Spans({ span, setSpan }: { span: number; setSpan: (span: number) => void }): JSX.Element {
  return (
    <div class="buttons" role="group" aria-label="Length of the history">
      {spans.map(([name, ms]) => <button key={name} type="button" aria-pressed={span === ms} onClick={() => setSpan(ms)}>{name}</button>)}
    </div>
  );
}

// A chart of the last `span` before `last`.
function HistoryChart({ label, series, names, span, last, text, height }: {
  label: string; series: Series; names: [name: string, label: string, color: string][]; span: number; last: number; text?: (value: number) => string;
  height?: number;
}): JSX.Element {
  const lines = useMemo(() => names.map(([name, title, color]): Line => ({ label: title, color, values: series.values[name] ?? [] })), [series]);
  return <Chart label={label} times={series.times} lines={lines} range={[last - span, last]} text={text}
    steps={text === lateText ? lateSteps : undefined} height={height} />;
}

const times = (unit: number, counts: number[]): number[] => counts.map((one) => one * unit);
// The distances of labels at a chart of times, so that they are round as times: 10 min, not 8 min 20 s.
const lateSteps = [
  ...times(1, [1, 2, 5, 10, 20, 50, 100, 200, 500]), ...times(1_000, [1, 2, 5, 10, 15, 30]), ...times(60_000, [1, 2, 5, 10, 15, 30]),
  ...times(3_600_000, [1, 2, 3, 6, 12]), ...times(86_400_000, [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000]),
];
const lateText = (ms: number): string => (ms === 0 ? "0" : spanText(ms));
const onTimeFrom = (series: Series, name: string): boolean => (series.values[name] ?? []).some((one) => one !== null);

// Rates of the server.
export function ServerRates(): JSX.Element {
  const { about, samples, info } = useApp();
  const [span, setSpan] = useState(600_000);
  const { history, problem } = useHistory();
  const series = useMemo(() => mergedOf(history, samples, ["accepted", "delivered", "acked"]), [history, samples]);
  const last = series.times[series.times.length - 1] ?? Date.parse(info?.server_time ?? "");
  return (
    <section class="panel">
      <div class="title">
        <h2>Rates</h2><span class="quiet">{about.history ? "per second; the console keeps six hours" : "per second, since this page was opened"}</span><span class="grow" />
        {about.history && <Spans span={span} setSpan={setSpan} />}
      </div>
      {problem}
      <HistoryChart label="Messages per second: accepted, delivered, acknowledged" series={series} span={span} last={last} names={[
        ["accepted", "accepted/s", "--accent"], ["delivered", "delivered/s", "--warn"], ["acked", "acked/s", "--good"],
      ]} />
    </section>
  );
}

// Lateness of the first deliveries of the server, if the console knows its metrics.
export function ServerLateness(): JSX.Element | null {
  const { about, info } = useApp();
  const [span, setSpan] = useState(3_600_000);
  const { history, problem } = useHistory();
  if (!about.history || !about.metrics) return null;
  const series: Series = history ?? { times: [], values: {} };
  return (
    <section class="panel">
      <div class="title"><h2>Lateness, over time</h2><span class="quiet">first deliveries</span><span class="grow" /><Spans span={span} setSpan={setSpan} /></div>
      {problem}
      {onTimeFrom(series, "late_most_ms")
        ? <HistoryChart label="Lateness of first deliveries" series={series} span={span} last={Date.parse(info?.server_time ?? "")} text={lateText} names={[
            ["late_half_ms", "half at most", "--accent"], ["late_most_ms", "99 % at most", "--bad"],
          ]} />
        : <Empty title="The console has seen no first delivery yet" />}
    </section>
  );
}

// The last hours of a topic.
export function TopicHistory({ topic }: { topic: string }): JSX.Element | null {
  const { about, info } = useApp();
  const [span, setSpan] = useState(3_600_000);
  const { history, problem } = useHistory(topic);
  if (!about.history) return null;
  const series: Series = history ?? { times: [], values: {} };
  const common = { series, span, last: Date.parse(info?.server_time ?? ""), height: 130 };
  return (
    <section class="panel">
      <div class="title"><h2>The last hours</h2><span class="quiet">each half minute; the console keeps six hours of up to 200 topics</span><span class="grow" /><Spans span={span} setSpan={setSpan} /></div>
      {problem}
      {series.times.length === 0
        ? <p class="quiet">{about.principal === undefined ? "Nothing is kept of this topic yet: look again in a minute." : "A console with a login keeps no history of topics."}</p>
        : (
          <div class="columns three">
            <HistoryChart {...common} label="Deliveries of the topic per second" names={[["delivered", "delivered/s", "--warn"], ["acked", "acked/s", "--good"]]} text={shortText} />
            <HistoryChart {...common} label="Messages of the topic" names={[["pending", "pending", "--accent"], ["due", "due", "--bad"]]} text={shortText} />
            <HistoryChart {...common} label="For how long the oldest waiting message has been due" names={[["late_ms", "oldest waiting, late by", "--bad"]]} text={lateText} />
          </div>
        )}
    </section>
  );
}
