// SPDX-License-Identifier: Apache-2.0
//
// Charts over time.

import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { shortText } from "./text";
import { localText } from "./time";

export interface Line {
  label: string;
  // A variable of the style sheet: "--accent".
  color: string;
  values: (number | null)[];
  // Has a scale of its own, at the right, so that its large values do not flatten the other lines.
  apart?: boolean;
}

function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A chart of lines, or of bars. `times` are milliseconds; `text` makes the text of a value, and `steps` are the distances that the
// labels of the values may have. With `onZoom`, a range that the pointer drags is passed to it, and with
// `onPick` the index of a point that is clicked.
export function Chart({ label, times, lines, bars = false, range, height = 180, text = shortText, steps, onZoom, onPick }: {
  label: string; times: number[]; lines: Line[]; bars?: boolean; range?: [number, number]; height?: number; text?: (value: number) => string;
  steps?: number[]; onZoom?: (from: number, to: number) => void; onPick?: (index: number) => void;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const handlers = useRef({ onZoom, onPick });
  handlers.current = { onZoom, onPick };
  const fixed = useRef(range);
  fixed.current = range;
  const data = [times.map((one) => one / 1_000), ...lines.map((one) => one.values)] as uPlot.AlignedData;

  useEffect(() => {
    const target = box.current;
    if (target === null) return undefined;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(target, { lines, bars, height, text, steps, range: fixed, handlers }), data, target);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: target.clientWidth, height }));
    resized.observe(target);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", make);
    return () => {
      scheme.removeEventListener("change", make);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [bars, height, lines.map((one) => `${one.label} ${one.apart}`).join()]);
  useEffect(() => plot.current?.setData(data), [times, lines]);

  return <div ref={box} class="chart" role="img" aria-label={label} />;
}

// For each distance of two labels in seconds: their form, and that of a label at which a new year, day or minute begins.
const timeLabels: (string | number | null)[][] = [
  [3600 * 24 * 365, "{YYYY}", null, null, null, null, null, null, 1],
  [3600 * 24 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [3600 * 24, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

interface Form {
  lines: Line[];
  bars: boolean;
  height: number;
  text: (value: number) => string;
  steps: number[] | undefined;
  range: { current: [number, number] | undefined };
  handlers: { current: { onZoom?: (from: number, to: number) => void; onPick?: (index: number) => void } };
}

// The width of an axis of values: that of its longest label, in 11px, and the gap beside it.
const valuesWidth: uPlot.Axis.Size = (_plot, values) => 18 + 6.5 * Math.max(4, ...(values ?? []).map((one) => one.length));

// The points that no line reaches, because the points beside them have no value.
const alone: uPlot.Series.Points.Filter = (plot, series) => {
  const values = plot.data[series] ?? [];
  return [...values.keys()].filter((i) => values[i] != null && values[i - 1] == null && values[i + 1] == null);
};

function optionsOf(target: HTMLElement, { lines, bars, height, text, steps, range, handlers }: Form): uPlot.Options {
  let dragged = false;
  const axis = { stroke: colorOf("--quiet"), grid: { stroke: colorOf("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  // There is no half message.
  const incrs = bars ? Array.from({ length: 36 }, (_unused, i) => [1, 2, 5][i % 3]! * 10 ** Math.floor(i / 3)) : steps;
  // Without a pointer over it, a chart of lines tells its last values.
  const lastOf = (plot: uPlot) => plot.data[0].findLastIndex((_time, i) => plot.data.slice(1).some((values) => values?.[i] != null));
  const shownOf = (plot: uPlot, series: number, index: number | null) => plot.data[series]?.[index ?? (bars ? -1 : lastOf(plot))] ?? null;
  const fromZero: uPlot.Scale["range"] = (_plot, _min, max) => [0, Math.max(1, (max ?? 0) * 1.1)];
  const xRange: uPlot.Scale["range"] = (_plot, min, max) => {
    const fixed = range.current;
    return fixed === undefined ? [min, Math.max(max, min + 1)] : [fixed[0] / 1_000, fixed[1] / 1_000];
  };
  return {
    width: target.clientWidth,
    height,
    legend: { show: !bars || lines.length > 1 },
    cursor: { y: false, drag: { x: handlers.current.onZoom !== undefined, y: false, setScale: false } },
    scales: { x: { time: true, range: xRange }, y: { range: fromZero }, apart: { range: fromZero } },
    axes: [
      { ...axis, values: timeLabels }, { ...axis, size: valuesWidth, incrs, values: (_plot, splits) => splits.map(text) },
      ...lines.filter((line) => line.apart).map((line): uPlot.Axis => ({
        ...axis, scale: "apart", side: 1, size: valuesWidth, stroke: colorOf(line.color), grid: { show: false }, incrs, values: (_plot, splits) => splits.map(text),
      })),
    ],
    series: [
      { value: (plot, _value, series, index) => {
        const shown = shownOf(plot, series, index);
        return shown === null ? "-" : localText(Math.floor(shown) * 1_000, Date.now());
      } },
      ...lines.map((line): uPlot.Series => ({
        label: line.label,
        scale: line.apart ? "apart" : "y",
        stroke: colorOf(line.color),
        fill: bars ? colorOf(line.color) : undefined,
        width: bars ? 0 : 1.5,
        points: bars ? { show: false } : { show: false, size: 4, fill: colorOf(line.color), filter: alone },
        paths: bars ? uPlot.paths.bars?.({ size: line.apart ? [0.4, 10] : [0.9, 24], align: 1 }) : undefined,
        value: (plot, _value, at, index) => {
          const shown = shownOf(plot, at, index);
          return shown === null ? "-" : text(shown);
        },
      })),
    ],
    hooks: {
      setSelect: [(self) => {
        if (self.select.width < 4) return;
        const from = self.posToVal(self.select.left, "x") * 1_000;
        const to = self.posToVal(self.select.left + self.select.width, "x") * 1_000;
        self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        dragged = true;
        handlers.current.onZoom?.(from, to);
      }],
      ready: [(self) => {
        self.over.addEventListener("click", () => {
          const index = self.cursor.idx;
          // A drag ends with a click, too.
          if (dragged) dragged = false;
          else if (index !== null && index !== undefined) handlers.current.onPick?.(index);
        });
      }],
    },
  };
}
