// SPDX-License-Identifier: Apache-2.0
//
// The dialogs that delete topics, subscriptions and recurrences. Nothing brings these back, so each says what is lost.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "./api";
import { useApp } from "./app";
import { ChangeDialog } from "./change";
import { commandLine } from "./command";
import { href } from "./route";
import { countText } from "./text";
import type { Recurrence, Subscription, Topic } from "./types";
import { Shown, TextField, When } from "./ui";

interface Props {
  onClose: (changed: boolean) => void;
}

const roundsMax = 4;
const waitMs = 30_000;
const pauseMs = 300;

// Waits for the end of an operation, for a while. True if it is done.
async function isDone(name: string): Promise<boolean> {
  for (const end = Date.now() + waitMs; Date.now() < end; await new Promise((resolve) => setTimeout(resolve, pauseMs))) {
    const { operation } = await call("Admin/GetOperation", { name });
    if (operation.state !== "STATE_RUNNING" && operation.state !== "STATE_STARTING") return operation.state === "STATE_DONE";
  }
  return false;
}

// Deletes a topic. If it holds messages, the first calls end them.
async function deleteTopic(name: string, force: boolean): Promise<JSX.Element> {
  for (let round = 0; round < roundsMax; ++round) {
    const { operation } = await call("Admin/DeleteTopic", { name, force });
    if (operation === "") return <p>The topic is deleted.</p>;
    if (!(await isDone(operation))) break;
  }
  return <p>The topic still holds messages. <a href={href("bulk", { topic: name })}>See how they end</a>, then delete it again.</p>;
}

export function DeleteTopicDialog({ topic, onClose }: Props & { topic: Topic }): JSX.Element {
  const { about } = useApp();
  const [typed, setTyped] = useState("");
  const pending = topic.counts?.pending ?? "0";
  const force = pending !== "0";
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Delete the topic", danger: true, verb: force ? `End ${countText(pending)} messages and delete` : "Delete the topic",
      refusal: typed === topic.name ? undefined : "Type the name of the topic to go on.",
      touches: (
        <>
          <p>Deletes <b><Shown text={topic.name} /></b> with its settings and subscriptions. A new message with this name would make a new topic.</p>
          {force && <p>It holds <b>{countText(pending)}</b> messages. They end first, also those in flight, and nobody gets them.</p>}
          <TextField label="Name of the topic" value={typed} onInput={setTyped} />
        </>
      ),
      command: commandLine(about.options, "topic delete", [topic.name], force ? [["--force", true], ["--wait", true]] : []),
      run: () => deleteTopic(topic.name, force),
    }} />
  );
}

export function DeleteSubscriptionDialog({ subscription, onClose }: Props & { subscription: Subscription }): JSX.Element {
  const { about } = useApp();
  const { topic, name, counts } = subscription;
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Delete the subscription", danger: true, verb: "Delete the subscription",
      touches: (
        <p>Deletes <b><Shown text={name} /></b> of <b><Shown text={topic} /></b>. Its {countText(counts?.streams)} streams end, and
          its {countText(counts?.in_flight)} messages in flight can no longer be settled. Messages that no other subscription needs end as dropped. If it is the
          topic&rsquo;s last subscription, all messages stay and wait for the next one.</p>
      ),
      command: commandLine(about.options, "subscription delete", [topic, name]),
      run: async () => {
        await call("Admin/DeleteSubscription", { topic, name });
        return <p>The subscription is deleted.</p>;
      },
    }} />
  );
}

export function DeleteRecurrenceDialog({ recurrence, onClose }: Props & { recurrence: Recurrence }): JSX.Element {
  const { about } = useApp();
  const { name, next_deliver_time } = recurrence;
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Delete the recurrence", danger: true, verb: "Delete the recurrence",
      touches: (
        <p>Deletes <b><Shown text={name} /></b>: it makes no more messages. {next_deliver_time && <>Its pending occurrence, due <When time={next_deliver_time} />, is
          cancelled if it was never delivered.</>}</p>
      ),
      command: commandLine(about.options, "recur delete", [name]),
      run: async () => {
        const answer = await call("Messages/DeleteRecurrence", { name });
        return <p>The recurrence is deleted{answer.occurrence_cancelled && ", and its pending occurrence is cancelled"}.</p>;
      },
    }} />
  );
}
