// SPDX-License-Identifier: Apache-2.0
//
// What all pages share: the server, its state, and the server's time.

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { About, CallError } from "./api";
import type { ServerInfo } from "./types";

// The counters of the server at one time.
export interface Sample {
  ms: number;
  counts: Record<string, number>;
}

export interface App {
  about: About;
  info?: ServerInfo;
  // Why the server does not answer, if it does not: the frame says so.
  trouble?: CallError;
  // How far the server's clock is ahead of the browser's.
  aheadMs: number;
  // The last minutes, oldest first. Begins anew when the server starts anew.
  samples: Sample[];
}

export const AppContext = createContext<App>({
  about: { version: "", server: "", options: [], metrics: false, history: false, read_only: false },
  aheadMs: 0,
  samples: [],
});

export const useApp = (): App => useContext(AppContext);

// The server's time, renewed every second.
export function useNow(): number {
  const { aheadMs } = useApp();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return now + aheadMs;
}

export const samplesMax = 300;

// Adds the counters of `info` to the samples.
export function addSample(samples: Sample[], info: ServerInfo, restarted: boolean): Sample[] {
  const counts = Object.fromEntries(Object.entries(info.counts ?? {}).map(([name, value]) => [name, Number(value)]));
  const kept = restarted ? [] : samples.slice(-samplesMax + 1);
  return [...kept, { ms: Date.parse(info.server_time), counts }];
}

// Changes per second between neighbouring samples. A counter that went back began again.
export function ratesOf(samples: Sample[], name: string): (number | null)[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1];
    if (before === undefined || sample.ms <= before.ms) return null;
    const [old, now] = [before.counts[name] ?? 0, sample.counts[name] ?? 0];
    return (now >= old ? now - old : now) / ((sample.ms - before.ms) / 1_000);
  });
}
