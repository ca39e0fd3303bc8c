// SPDX-License-Identifier: Apache-2.0
//
// The input of a payload.

import type { JSX } from "preact";
import { base64Of, jsonProblem } from "./text";
import { Choice, TextArea } from "./ui";

export interface PayloadText {
  text: string;
  kind: "json" | "text";
}

export const noPayload: PayloadText = { text: "", kind: "json" };

// Why the payload cannot be sent. JSON is checked, because a subscriber would find the error much later.
export function payloadRefusal({ text, kind }: PayloadText): string | undefined {
  if (kind === "text" || text === "") return undefined;
  const problem = jsonProblem(text);
  return problem === null ? undefined : `The payload is no JSON: ${problem}. Plain text can be chosen beside it.`;
}

export const payloadJson = ({ text }: PayloadText): string => base64Of(text);

export function PayloadFields({ payload, onInput }: { payload: PayloadText; onInput: (payload: PayloadText) => void }): JSX.Element {
  const refusal = payloadRefusal(payload);
  const checked = payload.kind === "json" && payload.text !== "" && refusal === undefined;
  return (
    <>
      <div class="whole">
        <TextArea label="Payload" value={payload.text} onInput={(text) => onInput({ ...payload, text })} invalid={refusal !== undefined}
          hint={`${new TextEncoder().encode(payload.text).length} bytes${checked ? ", valid JSON" : ""}`} />
      </div>
      <Choice label="The payload is" value={payload.kind} onChange={(kind) => onInput({ ...payload, kind: kind === "text" ? "text" : "json" })}
        options={[["json", "JSON, checked"], ["text", "plain text"]]} />
    </>
  );
}
