// SPDX-License-Identifier: Apache-2.0
//
// The length of the buckets of a forecast.

import { dayMs } from "./time";
import type { Bucket } from "./types";

const lengths: [Bucket, number, string][] = [
  ["BUCKET_SECOND", 1_000, "second"], ["BUCKET_MINUTE", 60_000, "minute"], ["BUCKET_HOUR", 3_600_000, "hour"], ["BUCKET_DAY", dayMs, "day of UTC"],
];
const bucketsMax = 750;
// The shortest bucket with which a range has at most `bucketsMax` of them.
export function bucketFor(rangeMs: number): [Bucket, number, string] {
  return lengths.find(([, length]) => rangeMs / length <= bucketsMax) ?? ["BUCKET_DAY", dayMs, "day of UTC"];
}
