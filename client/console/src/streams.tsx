// SPDX-License-Identifier: Apache-2.0
//
// The open streams of subscribers: who is connected.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "./api";
import { useApp } from "./app";
import { ChangeDialog } from "./change";
import { commandLine } from "./command";
import { useLoaded } from "./poll";
import { href } from "./route";
import type { SubscriberStream } from "./types";
import {
  Act, CommandBox, Count, Empty, Pager, Problem, Shown, Table, TopicLink, Waiting, When, countOrder, isMissing, rowsOf, timeOrder, usePages, type Column,
} from "./ui";

// Of one topic, or with "" of all. `subscription`: only its streams.
export function Streams({ topic, subscription }: { topic: string; subscription?: string }): JSX.Element {
  const { about } = useApp();
  const [ending, setEnding] = useState<SubscriberStream>();
  const pages = usePages(topic);
  const list = useLoaded(`streams ${topic} ${pages.token}`, () => call("Admin/ListStreams", { topic, page_size: rowsOf(100), page_token: pages.token }), 3_000);
  useEffect(() => { if (list.value) pages.setNext(list.value.next_page_token); }, [list.value]);
  const streams = list.value?.streams.filter((one) => subscription === undefined || one.subscription === subscription);
  const close = (changed: boolean) => {
    setEnding(undefined);
    if (changed) list.reload();
  };
  const named: [string, string][] = subscription === undefined ? [] : [["--subscription", subscription]];
  const columns: Column<SubscriberStream>[] = [
    { title: "Client", wide: true, by: (one) => one.client_id, cell: (one) => (one.client_id === "" ? <span class="quiet">no name</span> : <Shown text={one.client_id} max={80} />) },
    { title: "Address", by: (one) => one.peer, cell: (one) => <Shown text={one.peer} /> },
    { title: "Principal", by: (one) => one.principal, cell: (one) => (one.principal === "" ? "" : <Shown text={one.principal} />) },
    { title: "Topic", wide: true, by: (one) => one.topic, cell: (one) => <TopicLink name={one.topic} /> },
    { title: "Subscription", wide: true, by: (one) => one.subscription,
      cell: (one) => <a href={href("subscription", { topic: one.topic, name: one.subscription })}><Shown text={one.subscription} /></a> },
    { title: "In flight", right: true, by: (one) => countOrder(one.in_flight), cell: (one) => <Count value={one.in_flight} /> },
    { title: "Credit", right: true, by: (one) => one.max_outstanding_messages, cell: (one) => <Count value={one.max_outstanding_messages} /> },
    { title: "Since", by: (one) => timeOrder(one.start_time), cell: (one) => <When time={one.start_time} /> },
    { title: "Settled last", by: (one) => timeOrder(one.last_settle_time), cell: (one) => (one.last_settle_time ? <When time={one.last_settle_time} /> : <span class="quiet">never</span>) },
    { title: "Change", cell: (one) => <Act label={`End the stream ${one.id}`} onClick={() => setEnding(one)}>End</Act> },
  ];
  return (
    <section class="panel">
      <div class="title"><h2>Connected subscribers</h2><span class="quiet">open streams; a Pull that waits is not among them</span></div>
      <Problem error={isMissing(list.error) ? undefined : list.error} retry={list.reload} />
      {streams === undefined ? !list.error && <Waiting /> : streams.length === 0
        ? <Empty title="Nobody is connected"><CommandBox command={commandLine(about.options, "subscribe", [topic || "orders"], named)} /></Empty>
        : <Table caption="Connected subscribers" columns={columns} rows={streams} keyOf={(one) => one.id} />}
      <Pager pages={pages} shown={streams?.length ?? 0} />
      {ending && (
        <ChangeDialog onClose={close} change={{
          title: "End the stream", verb: "End the stream", danger: true,
          touches: (
            <p>Ends the stream of <b><Shown text={ending.client_id || ending.peer} /></b> on <b><Shown text={ending.topic} /></b>. Its {ending.in_flight} messages
              in flight come again, after the delay of a retry. Its client opens a new stream after its usual delay.</p>
          ),
          command: commandLine(about.options, "end-stream", [ending.id]),
          run: async () => {
            await call("Admin/EndStream", { id: ending.id });
            return <p>The stream is ended.</p>;
          },
        }} />
      )}
    </section>
  );
}
