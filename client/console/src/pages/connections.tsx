// SPDX-License-Identifier: Apache-2.0
//
// Who is connected.

import type { JSX } from "preact";
import type { Params } from "../filter";
import { useSettled } from "../poll";
import { replace } from "../route";
import { Streams } from "../streams";
import { TopicField } from "../topic_field";

export function ConnectionsPage({ params: typed }: { params: Params }): JSX.Element {
  const params = useSettled(typed);
  return (
    <>
      <div class="head"><h1>Connections</h1></div>
      <div class="panel"><div class="form"><TopicField label="Of the topic" value={typed.topic ?? ""} onInput={(topic) => replace("connections", { topic })} placeholder="all topics" /></div></div>
      <Streams topic={params.topic ?? ""} />
    </>
  );
}
