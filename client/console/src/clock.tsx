// SPDX-License-Identifier: Apache-2.0
//
// The clock of a server with a test clock: its time, and buttons that move it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call, type CallError } from "./api";
import { useApp } from "./app";
import type { Advanced } from "./types";
import { Act, Problem, When } from "./ui";

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
  return (
    <div class="notice" role="status">
      <p>
        Test clock: <When time={info?.server_time} relative={false} />.{" "}
        {moves.map(([text, make]) => <Act key={text} label={`Move the clock: ${text}`} onClick={() => { void move(make); }}>{text}</Act>)}
        {" "}{said}
      </p>
      <Problem error={error} />
    </div>
  );
}
