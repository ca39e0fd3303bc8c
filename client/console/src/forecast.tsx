// SPDX-License-Identifier: Apache-2.0
//
// When messages become due, as a chart to zoom: from years by day down to a minute by second.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { call } from "./api";
import { useNow } from "./app";
import { barsOf, bucketFor, type Bars } from "./bucket";
import { Chart, type Line } from "./chart";
import { useLoaded } from "./poll";
import { href } from "./route";
import { countText } from "./text";
import { dayMs, localText, msOf } from "./time";
import { Empty, Problem, Waiting } from "./ui";

const spans: [string, number][] = [["Year", 366 * dayMs], ["Month", 31 * dayMs], ["Day", dayMs], ["Hour", 3_600_000], ["Minute", 60_000]];

interface Range {
  // Absent: from now on.
  from?: number;
  length: number;
}

// The lines of a chart of bars. Messages that are due already have a colour and a scale of their own: a backlog would flatten what is ahead.
export function barLines(bars: Bars): Line[] {
  const lines: Line[] = [{ label: "due", color: "--accent", values: bars.ahead }];
  if (bars.hasOverdue) lines.push({ label: "already due, right scale", color: "--bad", values: bars.overdue, apart: true });
  return lines;
}

// `due`: how many messages of the topic are due.
export function ForecastPanel({ topic, due }: { topic: string; due: string | undefined }): JSX.Element {
  const [range, setRange] = useState<Range>({ length: dayMs });
  const now = useNow();
  const [bucket, bucketMs, bucketName] = bucketFor(range.length);
  const from = range.from ?? now;
  const forecast = useLoaded(`${topic} ${range.from} ${range.length}`, () => call("Admin/Forecast", {
    topic, bucket, buckets: Math.min(10_000, Math.ceil(range.length / bucketMs) + 1), start_time: new Date(from).toISOString(),
  }), 5_000);
  const shown = forecast.value;
  const bars = useMemo(() => barsOf(shown, bucketMs, now, due === undefined ? undefined : Number(due)), [shown, due]);
  const times = bars.times;
  const lines = useMemo(() => barLines(bars), [bars]);
  const zoom = (start: number, end: number) => {
    const length = Math.max(10_000, end - start);
    setRange({ from: start, length });
  };
  const pick = (index: number) => {
    const start = times[index];
    if (start !== undefined && bucketMs > 1_000) zoom(start, start + bucketMs);
  };
  const move = (steps: number) => setRange({ from: from + steps * range.length, length: range.length });
  const end = from + range.length;
  const inRange = shown?.buckets.reduce((sum, one) => sum + BigInt(one.count.messages), 0n) ?? 0n;
  return (
    <section class="panel">
      <div class="title">
        <h2>Forecast</h2>
        <span class="quiet">{shown && `${localText(msOf(shown.start_time))} to ${localText(msOf(shown.end_time))}, `}by {bucketName}</span>
        <span class="grow" />
        <div class="buttons" role="group" aria-label="Length of the forecast">
          {spans.map(([name, length]) => (
            <button key={name} type="button" aria-pressed={range.from === undefined && range.length === length} onClick={() => setRange({ length })}>{name}</button>
          ))}
        </div>
        <div class="buttons" role="group" aria-label="Move the forecast">
          <button type="button" aria-label="Earlier" onClick={() => move(-0.5)}>←</button>
          <button type="button" aria-label="Later" onClick={() => move(0.5)}>→</button>
          <button type="button" aria-label="Zoom in" onClick={() => zoom(from + range.length / 4, end - range.length / 4)}>+</button>
          <button type="button" aria-label="Zoom out" onClick={() => setRange({ from: from - range.length / 2, length: Math.min(10 * 366 * dayMs, range.length * 2) })}>−</button>
        </div>
      </div>
      <Problem error={forecast.error} retry={forecast.reload} />
      {shown === undefined ? !forecast.error && <Waiting /> : (
        <>
          {times.length === 0
            ? <Empty title="Nothing is due in this time"><span>{countText(shown.overdue.messages)} messages are due before it, {countText(shown.later.messages)} after it.</span></Empty>
            : <Chart label={`Messages that become due, by ${bucketName}`} times={times} lines={lines} bars height={200}
                range={[msOf(shown.start_time), msOf(shown.end_time)]} onZoom={zoom} onPick={pick} />}
          <div class="quiet">
            {countText(shown.overdue.messages)} before, <b>{countText(inRange)} in the chart</b>, {countText(shown.later.messages)} later.
            {" "}Drag over the chart or click a bar to zoom in.{" "}
            <a href={href("messages", { topic, from: shown.start_time, to: shown.end_time })}>List these messages</a>
          </div>
        </>
      )}
    </section>
  );
}
