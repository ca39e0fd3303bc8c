// SPDX-License-Identifier: Apache-2.0
//
// Loading of data: once, or again and again while the page is visible.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { CallError } from "./api";

export interface Loaded<Value> {
  // The latest answer; kept while a later call fails.
  value?: Value;
  error?: CallError;
  reload: () => void;
}

// Calls `load` now, at each change of `key`, and every `intervalMs` while the page is visible; 0: not again. A call begins
// after the one before has ended. An answer for an earlier key is dropped.
export function useLoaded<Value>(key: string, load: () => Promise<Value>, intervalMs = 0): Loaded<Value> {
  const [state, setState] = useState<{ key: string; value?: Value; error?: CallError }>({ key });
  const loadNow = useRef(load);
  loadNow.current = load;
  const wake = useRef(() => {});
  useEffect(() => {
    let ended = false;
    let running = false;
    let again = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      if (running) {
        again = true;
        return;
      }
      running = true;
      clearTimeout(timer);
      const result = await loadNow.current().then(
        (value) => ({ value }),
        (error: unknown) => ({ error: error instanceof CallError ? error : new CallError("UNKNOWN", "", String(error)) }),
      );
      running = false;
      if (ended) return;
      setState((old) => ("value" in result ? { key, value: result.value } : { ...(old.key === key ? old : {}), key, error: result.error }));
      if (again) {
        again = false;
        return run();
      }
      if (intervalMs > 0 && !document.hidden) timer = setTimeout(() => void run(), intervalMs);
    };
    const seen = () => void (intervalMs > 0 && !document.hidden && run());
    wake.current = () => void run();
    document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      ended = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [key, intervalMs]);
  const reload = useCallback(() => wake.current(), []);
  const { value, error } = state.key === key ? state : { value: undefined, error: undefined };
  return { value, error, reload };
}

const settleMs = 250;

// The value, once it has not changed for a moment: what a person types is not searched for letter by letter.
export function useSettled<Value>(value: Value): Value {
  const [settled, setSettled] = useState(value);
  const key = JSON.stringify(value);
  useEffect(() => {
    if (JSON.stringify(settled) === key) return undefined;
    const timer = setTimeout(() => setSettled(value), settleMs);
    return () => clearTimeout(timer);
  }, [key]);
  return settled;
}

// Runs `work` for each item, a few at a time, so that a long list does not fill the console's connections.
export async function forEachFew<Item, Result>(items: Item[], work: (item: Item) => Promise<Result>): Promise<Result[]> {
  const results = new Array<Result>(items.length);
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i] as Item);
  };
  await Promise.all([worker(), worker(), worker(), worker()]);
  return results;
}
