// SPDX-License-Identifier: Apache-2.0
//
// The length of the buckets of a forecast.

import { dayMs, msOf } from "./time";
import type { Bucket, Forecast } from "./types";

const lengths: [Bucket, number, string][] = [
  ["BUCKET_SECOND", 1_000, "second"], ["BUCKET_MINUTE", 60_000, "minute"], ["BUCKET_HOUR", 3_600_000, "hour"], ["BUCKET_DAY", dayMs, "day of UTC"],
];
const bucketsMax = 750;
// The shortest bucket with which a range has at most `bucketsMax` of them.
export function bucketFor(rangeMs: number): [Bucket, number, string] {
  return lengths.find(([, length]) => rangeMs / length <= bucketsMax) ?? ["BUCKET_DAY", dayMs, "day of UTC"];
}

export interface Bars {
  times: number[];
  // Messages that wait although they are due, and messages that become due; null: no bar.
  overdue: (number | null)[];
  ahead: (number | null)[];
  hasOverdue: boolean;
}

// Divides the buckets of a forecast at this moment. `due`: how many messages are due now, of all times, to divide the bucket of this
// moment; unknown: that bucket is ahead.
export function barsOf(forecast: Forecast | undefined, bucketMs: number, now: number, due: number | undefined): Bars {
  const bars: Bars = { times: [], overdue: [], ahead: [], hasOverdue: false };
  let before = Number(forecast?.overdue.messages ?? 0);
  for (const { start_time, count } of forecast?.buckets ?? []) {
    const start = msOf(start_time);
    const messages = Number(count.messages);
    let late = 0;
    if (start + bucketMs <= now) late = messages;
    else if (start <= now && due !== undefined) late = Math.max(0, Math.min(messages, due - before));
    before += messages;
    bars.times.push(start);
    bars.overdue.push(late > 0 ? late : null);
    bars.ahead.push(messages > late ? messages - late : null);
    bars.hasOverdue ||= late > 0;
  }
  return bars;
}
