// SPDX-License-Identifier: Apache-2.0
//
// The dialog that starts a bulk operation. It counts first, so that it can say how many messages the operation touches.

import type { JSX } from "preact";
import { call } from "./api";
import { useApp } from "./app";
import { ChangeDialog } from "./change";
import { bulkCommand } from "./command";
import { useLoaded } from "./poll";
import { href } from "./route";
import { countText, wordOf } from "./text";
import { localText, msOf, spanJson, spanText } from "./time";
import type { BulkAction, Filter, StartBulk } from "./types";
import { LabelList, MessageLink, Problem, Shown, StateBadge, Table, When } from "./ui";

export interface Bulk {
  topic: string;
  action: BulkAction;
  filter: Filter;
  shiftMs?: number;
}

export const bulkWords: Record<BulkAction, { verb: string; does: string; danger: boolean }> = {
  BULK_ACTION_CANCEL: { verb: "Cancel", does: "cancels them; those in flight stay as they are", danger: true },
  BULK_ACTION_SHIFT: { verb: "Shift", does: "moves all of them by the same length of time", danger: false },
  BULK_ACTION_RELEASE: { verb: "Release", does: "makes them due now", danger: false },
  BULK_ACTION_PURGE: { verb: "Purge", does: "ends them all, also those in flight", danger: true },
  BULK_ACTION_REDRIVE: { verb: "Redrive", does: "sends dead letters back: each becomes a new message of its original topic, due now", danger: false },
};

export function FilterText({ filter }: { filter: Filter | undefined }): JSX.Element {
  const time = (text: string | undefined) => localText(msOf(text));
  const parts: JSX.Element[] = [];
  if (filter?.key_prefix) parts.push(<>key begins with <Shown text={filter.key_prefix} /></>);
  if (filter?.labels && Object.keys(filter.labels).length > 0) parts.push(<LabelList labels={filter.labels} />);
  if (filter?.start_time) parts.push(<>due from {time(filter.start_time)}</>);
  if (filter?.end_time) parts.push(<>due before {time(filter.end_time)}</>);
  if (filter?.message_id) parts.push(<>id <Shown text={filter.message_id} /></>);
  if (parts.length === 0) return <>all messages</>;
  return <>{parts.map((part, index) => <span key={index}>{index > 0 && ", "}{part}</span>)}</>;
}

export function BulkDialog({ bulk, onClose }: { bulk: Bulk; onClose: (changed: boolean) => void }): JSX.Element {
  const { about } = useApp();
  const words = bulkWords[bulk.action];
  const request: StartBulk = { topic: bulk.topic, action: bulk.action, filter: bulk.filter };
  if (bulk.shiftMs !== undefined) request.shift_by = spanJson(bulk.shiftMs);
  const counted = useLoaded(JSON.stringify(request), async () => (await call("Admin/StartBulk", { ...request, dry_run: true })).operation);
  const dry = counted.value;
  let refusal: string | undefined;
  // A count of very many messages may take longer than the console waits. The change is possible without it.
  if (counted.error?.code === "DEADLINE_EXCEEDED") refusal = undefined;
  else if (counted.error) refusal = "The messages could not be counted.";
  else if (dry === undefined) refusal = "Counting the messages…";
  else if (dry.matched === "0") refusal = "No message matches: there is nothing to do.";
  return (
    <ChangeDialog onClose={onClose} change={{
      title: `${words.verb} messages of ${bulk.topic}`,
      verb: dry === undefined ? `${words.verb} all that match` : `${words.verb} ${countText(dry.matched)}`,
      danger: words.danger,
      refusal,
      touches: (
        <>
          <p><b>{dry !== undefined ? countText(dry.matched) : counted.error ? "An unknown number of" : "…"}</b> messages
            of <b><Shown text={bulk.topic} /></b> match now: <FilterText filter={bulk.filter} />.
            {" "}The operation {words.does}{bulk.shiftMs !== undefined && `: ${spanText(bulk.shiftMs)} ${bulk.shiftMs < 0 ? "earlier" : "later"}`}. It
            runs in the background and continues after a restart.</p>
          <Problem error={counted.error} retry={counted.reload} />
          {refusal === undefined && counted.error && <p class="quiet">The count took longer than the --timeout of the console. You can start the
            operation without it.</p>}
          {dry !== undefined && dry.sample.length > 0 && (
            <details>
              <summary>{dry.sample.length} of them</summary>
              <Table caption="Some of the messages" rows={dry.sample} keyOf={(one) => one.id} columns={[
                { title: "Due", cell: (one) => <When time={one.deliver_time} relative={false} /> },
                { title: "State", cell: (one) => <StateBadge state={one.state} /> },
                { title: "Id", cell: (one) => <MessageLink id={one.id} /> },
                { title: "Key", cell: (one) => <Shown text={one.key} /> },
              ]} />
            </details>
          )}
        </>
      ),
      command: bulkCommand(about.options, bulk),
      run: async () => {
        const { operation } = await call("Admin/StartBulk", request);
        return <p>The operation <Shown text={operation.name} /> is {wordOf(operation.state)}. <a href={href("bulk", { topic: bulk.topic })}>See its progress</a></p>;
      },
    }} />
  );
}
