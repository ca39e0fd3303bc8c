// SPDX-License-Identifier: Apache-2.0
//
// The dialogs that cancel a message and move it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "./api";
import { useApp, useNow } from "./app";
import { ChangeDialog } from "./change";
import { commandLine } from "./command";
import { wordOf } from "./text";
import { localText, parseSpan, parseTime, relativeText, spanJson, spanOption } from "./time";
import type { Message, Outcome } from "./types";
import { Shown, TextField, When } from "./ui";

function Target({ message }: { message: Message }): JSX.Element {
  return (
    <p>
      Message <span class="id">{message.id}</span>{message.key !== "" && <> with the key <b><Shown text={message.key} /></b></>} of{" "}
      <b><Shown text={message.topic} /></b>, due <When time={message.deliver_time} />.
    </p>
  );
}

// What a cancel or a move did, for people.
export function outcomeText(answer: Outcome): string {
  switch (answer.outcome) {
    case "OUTCOME_CANCELLED": return "Cancelled. It was never delivered and never will be.";
    case "OUTCOME_RESCHEDULED": return "Moved.";
    case "OUTCOME_IN_FLIGHT":
      if (answer.redelivery_stopped) return "It was, or may have been, delivered. It has ended: no further attempt.";
      return answer.delivery_uncertain
        ? "Not changed: an earlier run of the server may have delivered it."
        : "Not changed: it was delivered and is not settled.";
    case "OUTCOME_SETTLED": return `Not changed: it had already ended (${wordOf(answer.state)}).`;
    case "OUTCOME_ALREADY_CANCELLED": return "Not changed: it had already been cancelled.";
    default: return "Not changed: there is no such message any more.";
  }
}

export function CancelDialog({ message, onClose }: { message: Message; onClose: (changed: boolean) => void }): JSX.Element {
  const { about } = useApp();
  const [stop, setStop] = useState(false);
  const title = message.dead_letter ? "Delete the dead letter" : "Cancel the message";
  return (
    <ChangeDialog onClose={onClose} change={{
      title, verb: title, danger: true,
      touches: (
        <>
          <Target message={message} />
          <label><input type="checkbox" checked={stop} onChange={(event) => setStop(event.currentTarget.checked)} /> also end it if it was
            delivered and is not settled</label>
        </>
      ),
      command: commandLine(about.options, "cancel", [message.id], stop ? [["--stop-redelivery", true]] : []),
      run: async () => <p>{outcomeText(await call("Messages/Cancel", { message_id: message.id, stop_redelivery: stop }))}</p>,
    }} />
  );
}

export function RescheduleDialog({ message, onClose }: { message: Message; onClose: (changed: boolean) => void }): JSX.Element {
  const { about } = useApp();
  const now = useNow();
  const [delay, setDelay] = useState("");
  const [at, setAt] = useState("");
  const delayMs = delay === "" ? null : parseSpan(delay);
  const atMs = parseTime(at);
  const newMs = delayMs !== null ? now + delayMs : atMs;
  let refusal: string | undefined;
  if (delay !== "" && (delayMs === null || delayMs < 0)) refusal = "The delay is written as 90s, 1h30m or 2d.";
  else if (newMs === null) refusal = "Give a delay or a time.";
  const when = delayMs !== null ? { delay: spanJson(delayMs) } : { deliver_time: new Date(atMs ?? 0).toISOString() };
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Move the message to another time", verb: "Move", refusal,
      touches: (
        <>
          <Target message={message} />
          <div class="form">
            <TextField label="From now" value={delay} onInput={(value) => { setDelay(value); setAt(""); }} placeholder="1h30m"
              invalid={delay !== "" && refusal !== undefined} />
            <TextField label="or at, in this browser's zone" type="datetime-local" value={at} onInput={(value) => { setAt(value); setDelay(""); }} />
          </div>
          {newMs !== null && refusal === undefined && <p>Then due {localText(newMs)} ({relativeText(newMs, now)}).</p>}
        </>
      ),
      command: commandLine(about.options, "reschedule", [message.id], [
        delayMs !== null ? ["--in", spanOption(delayMs)] : ["--at", new Date(atMs ?? 0).toISOString()],
        ["--etag", message.etag],
      ]),
      run: async () => {
        const answer = await call("Messages/Reschedule", { message_id: message.id, etag: message.etag, ...when });
        return <p>{outcomeText(answer)} {answer.message && <>Due <When time={answer.message.deliver_time} />.</>}</p>;
      },
    }} />
  );
}
