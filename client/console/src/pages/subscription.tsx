// SPDX-License-Identifier: Apache-2.0
//
// One subscription: its backlog and its settings.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { ChangeDialog } from "../change";
import { commandLine } from "../command";
import { DeleteSubscriptionDialog } from "../delete_dialogs";
import { useLoaded } from "../poll";
import { href } from "../route";
import { subscriptionSettings } from "../settings";
import { SettingsDialog, useSettingFacts } from "../settings_form";
import { Streams } from "../streams";
import { countText } from "../text";
import { Act, Count, Facts, Missing, Problem, Shown, Tile, TopicLink, Waiting, When, isMissing } from "../ui";
import { SubscriptionState } from "./topic";

export function SubscriptionPage({ params }: { params: Record<string, string> }): JSX.Element {
  const { topic = "", name = "" } = params;
  const { about } = useApp();
  const [dialog, setDialog] = useState<"pause" | "settings" | "delete">();
  const loaded = useLoaded(`${topic} ${name}`, async () => (await call("Admin/GetSubscription", { topic, name })).subscription, 3_000);
  const subscription = loaded.value;
  const close = (changed: boolean) => {
    setDialog(undefined);
    if (changed) loaded.reload();
  };
  const facts = useSettingFacts(subscriptionSettings, subscription?.settings, topic);
  const paused = subscription?.settings.paused === true;
  const counts = subscription?.counts;
  const update = (settings: object, mask: string) => call("Admin/UpdateSubscription", { subscription: { topic, name, settings }, update_mask: mask });
  return (
    <>
      <div class="head">
        <h1><Shown text={name} /></h1>
        {subscription && <SubscriptionState subscription={subscription} />}
        <span class="quiet">of <TopicLink name={topic} /></span>
        <span class="grow" />
        {subscription && (
          <div class="buttons">
            <Act onClick={() => setDialog("pause")}>{paused ? "Resume" : "Pause"}</Act>
            <Act onClick={() => setDialog("settings")}>Edit settings</Act>
            <Act onClick={() => setDialog("delete")}>Delete</Act>
            <a class="button" href={href("dead-letters", { topic, dlq: subscription.settings.dead_letter_topic })}>Dead letters</a>
          </div>
        )}
      </div>
      <Problem error={isMissing(loaded.error) ? undefined : loaded.error} retry={loaded.reload} />
      <Missing error={loaded.error} name={loaded.error?.reason === "TOPIC_NOT_FOUND" ? topic : name}><a href={href("topic", { name: topic })}>To the topic</a></Missing>
      {subscription === undefined || isMissing(loaded.error) ? !loaded.error && <Waiting /> : (
        <>
          <div class="tiles five">
            <Tile label="Backlog" value={<Count value={subscription.backlog?.messages} />} note="due and not settled" />
            <Tile label="Ready" value={<Count value={counts?.ready} />} note={counts?.behind ? "in memory; more on disk" : "due and in memory"} />
            <Tile label="In flight" value={<Count value={counts?.in_flight} />} note={`${countText(counts?.streams)} ${counts?.streams === "1" ? "stream" : "streams"}`} />
            <Tile label="Wait for a retry" value={<Count value={counts?.delayed} />} />
            <Tile label="Wait for their order" value={<Count value={counts?.blocked} />} />
            <Tile label="Delivered" value={<Count value={counts?.delivered} />} note="since the start of the server" />
            <Tile label="Acknowledged" value={<Count value={counts?.acked} />} note="since the start of the server" />
            <Tile label="Dead letters" value={<Count value={counts?.dead_lettered} />} tone={counts?.dead_lettered === "0" ? "" : "warn"} note="since the start of the server" />
            <Tile label="Dropped" value={<Count value={counts?.dropped} />} note="since the start of the server" />
          </div>
          <section class="panel">
            <div class="title"><h2>Backlog and settings</h2></div>
            <Facts facts={[
              ["Oldest unsettled message was due", <When time={subscription.backlog?.oldest_due_time} />],
              ["Created", <When time={subscription.create_time} />],
              ...facts,
            ]} />
          </section>
          <Streams topic={topic} subscription={name} />
        </>
      )}
      {dialog === "delete" && subscription && <DeleteSubscriptionDialog subscription={subscription} onClose={close} />}
      {dialog === "pause" && subscription && (
        <ChangeDialog onClose={close} change={{
          title: paused ? "Resume the subscription" : "Pause the subscription",
          verb: paused ? "Resume" : "Pause",
          touches: <p><b><Shown text={name} /></b> of <b><Shown text={topic} /></b> {paused ? "delivers again." : "delivers nothing until you resume it. Its messages wait; those in flight can be settled."}
            {" "}{countText(counts?.ready)} messages are ready, {countText(counts?.in_flight)} in flight.</p>,
          command: commandLine(about.options, `subscription ${paused ? "resume" : "pause"}`, [topic, name]),
          run: async () => {
            await update({ paused: !paused }, "settings.paused");
            return <p>{paused ? "The subscription delivers again." : "The subscription is paused."}</p>;
          },
        }} />
      )}
      {dialog === "settings" && subscription && (
        <SettingsDialog title={`Settings of ${name}`} name={topic} groups={subscriptionSettings} settings={subscription.settings} onClose={close}
          note={<p>They apply to later deliveries and later failures of <Shown text={topic} />.</p>}
          commandOf={(change) => commandLine(about.options, "subscription update", [topic, name], change.options)}
          update={(change) => update(change.settings, change.mask)} />
      )}
    </>
  );
}
