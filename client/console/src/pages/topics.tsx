// SPDX-License-Identifier: Apache-2.0
//
// The list of topics.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api";
import { useApp } from "../app";
import { commandLine } from "../command";
import { CreateTopicDialog } from "../create_dialogs";
import { forEachFew, useLoaded, useSettled } from "../poll";
import { href, replace } from "../route";
import { bytesText } from "../text";
import type { Topic } from "../types";
import {
  Act, Badge, CommandBox, Count, Empty, Pager, Problem, Table, TextField, TopicLink, Waiting, countOrder, rowsOf, usePages, type Column,
} from "../ui";

const pageSize = 50;

export const deadLetterTopicOf = (topic: Topic): string => topic.settings.dead_letter_topic || `${topic.name}.dlq`;

export const rateText = (topic: Topic): string =>
  topic.settings.rate ? `${topic.settings.rate.messages_per_second}/s` : "";

const columns: Column<Topic>[] = [
  { title: "Topic", by: (one) => one.name, cell: (one) => <TopicLink name={one.name} />, wide: true },
  { title: "State", by: (one) => (one.settings.paused ? "paused" : "active"), cell: (one) => (one.settings.paused ? <Badge text="paused" tone="warn" /> : <Badge text="active" tone="good" />) },
  { title: "Pending", right: true, by: (one) => countOrder(one.counts?.pending), cell: (one) => <Count value={one.counts?.pending} /> },
  { title: "Due", right: true, by: (one) => countOrder(one.counts?.due), cell: (one) => <Count value={one.counts?.due} /> },
  { title: "Bytes", right: true, by: (one) => countOrder(one.counts?.pending_bytes), cell: (one) => <span class="number">{bytesText(one.counts?.pending_bytes)}</span> },
  { title: "Rate", right: true, by: (one) => (one.settings.rate ? Number(one.settings.rate.messages_per_second) : Infinity), cell: (one) => rateText(one) || <span class="quiet">no limit</span> },
  { title: "Messages", cell: (one) => <a href={href("messages", { topic: one.name })}>list</a> },
];

export function TopicsPage({ params: typed }: { params: Record<string, string> }): JSX.Element {
  const params = useSettled(typed);
  const { about } = useApp();
  const [creating, setCreating] = useState(false);
  const prefix = params.prefix ?? "";
  const pages = usePages(prefix);
  const list = useLoaded(`${prefix} ${pages.token}`, async () => {
    const page = await call("Admin/ListTopics", { name_prefix: prefix, page_size: rowsOf(pageSize), page_token: pages.token });
    // A list has no counts.
    const topics = await forEachFew(page.topics, async (one) => {
      try {
        return (await call("Admin/GetTopic", { name: one.name })).topic;
      } catch {
        return one; // Deleted meanwhile.
      }
    });
    return { topics, next: page.next_page_token };
  }, 5_000);
  useEffect(() => { if (list.value) pages.setNext(list.value.next); }, [list.value]);
  return (
    <>
      <div class="head"><h1>Topics</h1><span class="grow" /><Act onClick={() => setCreating(true)}>Create a topic</Act></div>
      <div class="panel">
        <div class="form">
          <TextField label="Name begins with" value={typed.prefix ?? ""} onInput={(value) => replace("topics", { prefix: value })} />
        </div>
      </div>
      <Problem error={list.error} retry={list.reload} />
      <div class="panel">
        {list.value === undefined ? !list.error && <Waiting /> : list.value.topics.length === 0
          ? prefix !== ""
            ? <Empty title="No topic has such a name"><a href={href("topics")}>Show all topics</a></Empty>
            : <Empty title="No topics yet"><span>The first message creates its topic:</span>
                <CommandBox command={commandLine(about.options, "schedule", ["greetings", "hello"], [["--in", "1m"]])} /></Empty>
          : <Table caption="Topics" columns={columns} rows={list.value.topics} keyOf={(one) => one.name} />}
        <Pager pages={pages} shown={list.value?.topics.length ?? 0} />
      </div>
      {creating && <CreateTopicDialog onClose={(changed) => { setCreating(false); if (changed) list.reload(); }} />}
    </>
  );
}
