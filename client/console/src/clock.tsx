// SPDX-License-Identifier: Apache-2.0
//
// The clock of a server with a test clock: its time, and buttons that move it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, type CallError } from "./api";
import { useApp } from "./app";
import { useLoaded } from "./poll";
import { localText, msOf, utcText } from "./time";
import type { Advanced } from "./types";
import { Act, Problem } from "./ui";

const stops: Record<string, string> = {
  STOP_NOTHING: "Nothing more happens.",
  STOP_SUBSCRIBERS: "It waits: subscribers hold messages that they have not settled.",
  STOP_TIMEOUT: "There is more to do; move it again.",
};

const moves: [string, () => Promise<{ advanced: Advanced }>][] = [
  ["Next event", () => call("TestClock/AdvanceToNext", { limits: { timeout: "5s", hand_outs_max: 0 } })],
  ["+ 1 hour", () => call("TestClock/Advance", { by: "3600s", limits: { timeout: "5s", hand_outs_max: 0 } })],
  ["+ 1 day", () => call("TestClock/Advance", { by: "86400s", limits: { timeout: "5s", hand_outs_max: 0 } })],
];

export function TestClock({ reload }: { reload: () => void }): JSX.Element {
  const { info } = useApp();
  const pace = useLoaded("test clock", async () => (await call("TestClock/GetClock", {})).clock, 5_000).value;
  const [said, setSaid] = useState("");
  const [error, setError] = useState<CallError>();
  const move = async (make: (typeof moves)[number][1]) => {
    setError(undefined);
    try {
      const { advanced } = await make();
      setSaid(`${advanced.fired} became due, ${advanced.handed_out} handed out. ${stops[advanced.stop] ?? ""}`);
    } catch (failed) {
      setError(failed as CallError);
    }
    reload();
  };
  const ms = msOf(info?.server_time);
  return (
    <div class="notice" role="status">
      <div class="buttons">
        {/* With its date: the clock of the page is this one, and leaves out the date of today. */}
        <span>Test clock: <b><time title={utcText(ms)}>{localText(ms)}</time></b>{pace && (pace.frozen ? ", stands still" : pace.speed > 1 ? `, ${pace.speed} times as fast` : ", runs")}</span>
        {moves.map(([text, make]) => <Act key={text} label={`Move the clock: ${text}`} onClick={() => { void move(make); }}>{text}</Act>)}
        {said && <span>{said}</span>}
      </div>
      <Problem error={error} />
    </div>
  );
}
