// SPDX-License-Identifier: Apache-2.0
//
// The dialog of a change: asks once, shows what the change touches and the command that does the same, and the result.

import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { CallError } from "./api";
import { CommandBox, Dialog, Problem } from "./ui";

export interface Change {
  title: string;
  // What the change touches, and inputs if it has any.
  touches: ComponentChildren;
  command: string;
  // The words of the button.
  verb: string;
  danger?: boolean;
  // Set if the inputs do not allow the change yet.
  refusal?: string;
  // Makes the change and returns what became of it.
  run: () => Promise<ComponentChildren>;
}

export function ChangeDialog({ change, onClose }: { change: Change; onClose: (changed: boolean) => void }): JSX.Element {
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<CallError>();
  const [result, setResult] = useState<ComponentChildren>(null);
  const closeButton = useRef<HTMLButtonElement>(null);
  const done = result !== null;
  const close = () => running || onClose(done);
  useLayoutEffect(() => {
    if (done) closeButton.current?.focus();
  }, [done]);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (running || done || change.refusal !== undefined) return;
    setRunning(true);
    setError(undefined);
    try {
      setResult(await change.run());
    } catch (caught) {
      setError(caught instanceof CallError ? caught : new CallError("UNKNOWN", "", String(caught)));
    }
    setRunning(false);
  };
  return (
    <Dialog title={change.title} onClose={close}>
      <form onSubmit={(event) => void submit(event)}>
        {done ? <div class="result" role="status">{result}</div> : <div class="touches">{change.touches}</div>}
        <Problem error={error} />
        {!done && change.refusal === undefined && (
          <>
            <div class="label">The same on the command line</div>
            <CommandBox command={change.command} />
          </>
        )}
        {!done && change.refusal !== undefined && <p class="quiet" role="status">{change.refusal}</p>}
        <div class="buttons">
          <button type="button" ref={closeButton} onClick={close} disabled={running}>{done ? "Close" : "Back"}</button>
          {!done && (
            <button type="submit" class={change.danger ? "danger" : "primary"} disabled={running || change.refusal !== undefined}>
              {running ? "Working…" : change.verb}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
