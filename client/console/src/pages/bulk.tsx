// SPDX-License-Identifier: Apache-2.0
//
// Bulk operations: a form that starts one, and the progress of all.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { BulkDialog, FilterText, bulkWords, type Bulk } from "../bulk_dialog";
import { ChangeDialog } from "../change";
import { commandLine } from "../command";
import { FilterFields, filterOf, type Params } from "../filter";
import { useLoaded, useSettled } from "../poll";
import { replace } from "../route";
import { countText, wordOf } from "../text";
import { durationMs, msOf, parseSpan, spanText } from "../time";
import { TopicField } from "../topic_field";
import type { BulkAction, Operation } from "../types";
import {
  Act, Choice, Count, Empty, Pager, Problem, Shown, StateBadge, Table, TextField, TopicLink, Waiting, When, countOrder, rowsOf, timeOrder, usePages,
} from "../ui";

const pageSize = 50;

export function BulkPage({ params }: { params: Params }): JSX.Element {
  const listed = useSettled(params.topic ?? "");
  const [dialog, setDialog] = useState<Bulk>();
  const [stopping, setStopping] = useState<Operation>();
  const { about } = useApp();
  const topic = params.topic ?? "";
  const action = (params.action ?? "BULK_ACTION_CANCEL") as BulkAction;
  const { filter, refusal } = filterOf(params);
  const set = (change: Params) => replace("bulk", { ...params, ...change });
  const shiftMs = action === "BULK_ACTION_SHIFT" ? parseSpan(params.by ?? "") : undefined;
  let refused = refusal;
  if (about.read_only) refused = "This console changes nothing.";
  else if (topic === "") refused = "Name a topic.";
  else if (shiftMs === null || shiftMs === 0) refused = "Say by how much to shift: 1h30m, or earlier: -15m.";
  const pages = usePages(listed);
  const list = useLoaded(`operations ${listed} ${pages.token}`, () => call("Admin/ListOperations", { topic: listed, page_size: rowsOf(pageSize), page_token: pages.token }), 1_500);
  useEffect(() => { if (list.value) pages.setNext(list.value.next_page_token); }, [list.value]);
  const close = () => {
    setDialog(undefined);
    setStopping(undefined);
    list.reload();
  };
  return (
    <>
      <div class="head"><h1>Bulk operations</h1></div>
      <section class="panel">
        <div class="title"><h2>Change all messages that match</h2></div>
        <form onSubmit={(event) => {
          event.preventDefault();
          if (refused === undefined) setDialog({ topic, action, filter, shiftMs: shiftMs ?? undefined });
        }}>
          <div class="form">
            <TopicField value={topic} onInput={(value) => set({ topic: value })} />
            <Choice label="What to do" value={action} onChange={(value) => set({ action: value })} hint={bulkWords[action]?.does}
              options={Object.entries(bulkWords).map(([value, { verb }]) => [value, verb])} />
            {action === "BULK_ACTION_SHIFT" && (
              <TextField label="By" value={params.by ?? ""} onInput={(by) => set({ by })} placeholder="1h30m, or -15m" hint="with a minus: earlier" />
            )}
            <FilterFields params={params} set={set} />
            <div class="field"><span class="label">&nbsp;</span><button type="submit" class="primary" disabled={refused !== undefined}>Count first</button></div>
          </div>
        </form>
        {refused !== undefined && <p class="quiet" role="status">{refused}</p>}
      </section>
      <Problem error={list.error} retry={list.reload} />
      <section class="panel">
        <div class="title"><h2>Operations{topic !== "" && <> of <Shown text={topic} /></>}</h2><span class="quiet">those that run, and those that ended within a day</span></div>
        {list.value === undefined ? !list.error && <Waiting /> : list.value.operations.length === 0
          ? <Empty title="No operations"><span>Count messages with the form above, and start one.</span></Empty>
          : (
            <Table caption="Operations" rows={list.value.operations} keyOf={(one) => one.name} columns={[
              { title: "Operation", by: (one) => one.name, cell: (one) => <Shown text={one.name} /> },
              { title: "Topic", wide: true, by: (one) => one.topic, cell: (one) => <TopicLink name={one.topic} /> },
              { title: "Action", by: (one) => one.action, cell: (one) => <>{wordOf(one.action, "BULK_ACTION_")}{one.shift_by && ` by ${durationMs(one.shift_by) < 0 ? "-" : ""}${spanText(durationMs(one.shift_by))}`}</> },
              { title: "Messages", wide: true, cell: (one) => <FilterText filter={one.filter} /> },
              { title: "State", by: (one) => one.state, cell: (one) => <><StateBadge state={one.state} />{one.error && <Shown text={` ${one.error.message}`} />}</> },
              { title: "Matched", right: true, by: (one) => countOrder(one.matched), cell: (one) => <Count value={one.matched} /> },
              { title: "Changed", right: true, by: (one) => countOrder(one.changed), cell: (one) => <Count value={one.changed} /> },
              { title: "Unchanged", right: true, by: (one) => countOrder(one.unchanged), cell: (one) => <Count value={one.unchanged} /> },
              { title: "Started", by: (one) => timeOrder(one.create_time), cell: (one) => <When time={one.create_time} /> },
              { title: "Progress", cell: (one) => <Progress operation={one} /> },
              { title: "Change", cell: (one) => (one.state === "STATE_RUNNING" || one.state === "STATE_STARTING") && <Act onClick={() => setStopping(one)}>Stop</Act> },
            ]} />
          )}
        <Pager pages={pages} shown={list.value?.operations.length ?? 0} />
      </section>
      {dialog && <BulkDialog bulk={dialog} onClose={close} />}
      {stopping && <StopDialog operation={stopping} onClose={close} />}
    </>
  );
}

function Progress({ operation }: { operation: Operation }): JSX.Element {
  if (operation.state === "STATE_STARTING") return <>missing in {operation.missing_places.join("; ") || "no place"}; repeat the start with this name</>;
  if (operation.state !== "STATE_RUNNING") return <span class="together">took {spanText(msOf(operation.end_time) - msOf(operation.create_time))}</span>;
  return operation.progress_time ? <>up to <When time={operation.progress_time} relative={false} /></> : <>running</>;
}

function StopDialog({ operation, onClose }: { operation: Operation; onClose: () => void }): JSX.Element {
  const { about } = useApp();
  return (
    <ChangeDialog onClose={onClose} change={{
      title: "Stop the operation", verb: "Stop", danger: true,
      touches: <p>The operation <b><Shown text={operation.name} /></b> on <Shown text={operation.topic} /> has changed {countText(operation.changed)} messages
        so far. These changes stay.</p>,
      command: commandLine(about.options, "bulk stop", [operation.name]),
      run: async () => {
        const answer = await call("Admin/CancelOperation", { name: operation.name });
        return <p>The operation is {wordOf(answer.operation.state)}; it changed {countText(answer.operation.changed)} messages.</p>;
      },
    }} />
  );
}
