// SPDX-License-Identifier: Apache-2.0
//
// The server's metrics in the text format of Prometheus: what no call answers.

export interface Metric {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function parseMetrics(text: string): Metric[] {
  const metrics: Metric[] = [];
  for (const line of text.split("\n")) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (match === null) continue;
    const labels: Record<string, string> = {};
    for (const [, name = "", value = ""] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    metrics.push({ name: match[1] ?? "", labels, value: match[3] === "+Inf" ? Infinity : Number(match[3]) });
  }
  return metrics;
}

// The sum over all labels; undefined if there is no such metric.
export function sumOf(metrics: Metric[], name: string): number | undefined {
  const found = metrics.filter((one) => one.name === name);
  return found.length === 0 ? undefined : found.reduce((sum, one) => sum + one.value, 0);
}

// The number of values in each bucket of a histogram, over all labels, in the order of the bounds.
export function histogramOf(metrics: Metric[], name: string): { le: number; count: number }[] {
  const upTo = new Map<number, number>();
  for (const one of metrics) {
    if (one.name !== `${name}_bucket`) continue;
    const le = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
    upTo.set(le, (upTo.get(le) ?? 0) + one.value);
  }
  let before = 0;
  return [...upTo].sort(([a], [b]) => a - b).map(([le, count]) => {
    const here = count - before;
    before = count;
    return { le, count: here };
  });
}

// The bound that a share of the values does not exceed.
export function quantileOf(buckets: { le: number; count: number }[], share: number): number {
  const total = buckets.reduce((sum, one) => sum + one.count, 0);
  let seen = 0;
  for (const { le, count } of buckets) {
    seen += count;
    if (seen >= total * share) return le;
  }
  return NaN;
}
