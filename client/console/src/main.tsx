// SPDX-License-Identifier: Apache-2.0
//
// The frame of the page: navigation, the state of the server, and the page that the address names.

import { render, type ComponentType, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { call, getAbout, logOut, watchLogOut, type About, type CallError } from "./api";
import { AppContext, addSample, type Sample } from "./app";
import { TestClock } from "./clock";
import { LoginPage } from "./login";
import { BulkPage } from "./pages/bulk";
import { ConnectionsPage } from "./pages/connections";
import { DeadLettersPage } from "./pages/dead_letters";
import { MessagePage } from "./pages/message";
import { MessagesPage } from "./pages/messages";
import { OverviewPage } from "./pages/overview";
import { RecurrencePage, RecurrencesPage } from "./pages/recurrences";
import { ServerPage } from "./pages/server";
import { SubscriptionPage } from "./pages/subscription";
import { TopicPage } from "./pages/topic";
import { TopicsPage } from "./pages/topics";
import { useLoaded } from "./poll";
import { href, useRoute } from "./route";
import { wordOf } from "./text";
import { Badge, Empty, Problem, Shown, Waiting } from "./ui";

type Params = Record<string, string>;

// The pages of the navigation, and for each of the others the page that leads to it.
const navigation: [page: string, title: string][] = [
  ["overview", "Overview"], ["topics", "Topics"], ["messages", "Messages"], ["dead-letters", "Dead letters"],
  ["recurrences", "Recurrences"], ["connections", "Connections"], ["bulk", "Bulk operations"], ["server", "Server"],
];
const pages: Record<string, { view: ComponentType<{ params: Params }>; within?: string; title?: string }> = {
  overview: { view: OverviewPage },
  topics: { view: TopicsPage },
  topic: { view: TopicPage, within: "topics", title: "Topic" },
  subscription: { view: SubscriptionPage, within: "topics", title: "Subscription" },
  messages: { view: MessagesPage },
  message: { view: MessagePage, within: "messages", title: "Message" },
  "dead-letters": { view: DeadLettersPage },
  recurrences: { view: RecurrencesPage },
  recurrence: { view: RecurrencePage, within: "recurrences", title: "Recurrence" },
  connections: { view: ConnectionsPage },
  bulk: { view: BulkPage },
  server: { view: ServerPage },
};

function Frame({ about }: { about: About }): JSX.Element {
  const route = useRoute();
  const page = pages[route.page];
  const title = navigation.find(([name]) => name === route.page)?.[1] ?? page?.title ?? "Not found";
  const info = useLoaded("info", async () => ({ at: Date.now(), info: await call("Admin/ServerInfo", {}) }), 2_000);
  const [samples, setSamples] = useState<Sample[]>([]);
  const started = useRef("");
  const main = useRef<HTMLElement>(null);
  const shown = useRef(route.page);
  useEffect(() => {
    if (info.value === undefined) return;
    const now = info.value.info;
    const restarted = started.current !== now.start_time;
    started.current = now.start_time;
    setSamples((old) => addSample(old, now, restarted));
  }, [info.value]);
  useEffect(() => {
    document.title = `${title} - duetime`;
    if (shown.current === route.page) return;
    shown.current = route.page;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [route.page, title]);
  const aheadMs = info.value === undefined ? 0 : Date.parse(info.value.info.server_time) - info.value.at;
  const app = { about, info: info.value?.info, trouble: info.error, aheadMs, samples };
  return (
    <AppContext.Provider value={app}>
      <a class="skip" href={`#/${route.page}`} onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to the page</a>
      <div class="app">
        <div class="side">
          <nav aria-label="Pages">
            <a class="brand" href={href("overview")}><img src="icon.svg" width="20" height="20" alt="" />duetime</a>
            {navigation.map(([name, text]) => (
              <a key={name} href={href(name)} aria-current={name === (page?.within ?? route.page) ? "page" : undefined}>{text}</a>
            ))}
          </nav>
        </div>
        <div>
          <header class="top">
            <span>Server <Shown text={about.server} /></span>
            {app.info && info.error === undefined && (
              <Badge text={wordOf(app.info.state, "SERVING_STATE_")} tone={app.info.state === "SERVING_STATE_SERVING" ? "good" : "bad"} />
            )}
            {info.error !== undefined && <Badge text="no answer" tone="bad" />}
            {about.read_only && <Badge text="read only" />}
            {app.info?.disk_low && <Badge text="disk low" tone="bad" />}
            {app.info?.damage && <Badge text="damage on disk" tone="bad" />}
            {app.info && app.info.clock_state !== "CLOCK_STATE_NORMAL" && (
              <Badge text={app.info.clock_state === "CLOCK_STATE_TEST" ? "test clock" : `clock ${wordOf(app.info.clock_state, "CLOCK_STATE_")}`} tone="warn" />
            )}
            <span class="grow" />
            <span class="quiet">duetime {app.info?.version ?? about.version}</span>
            {about.principal !== undefined && (
              <span class="quiet">
                <Shown text={about.principal} /> <button type="button" onClick={() => logOut()}>Log out</button>
              </span>
            )}
          </header>
          <main ref={main} tabIndex={-1} data-page={route.page}>
            <Problem error={info.error} retry={info.reload} frame />
            {app.info?.clock_state === "CLOCK_STATE_TEST" && <TestClock reload={info.reload} />}
            {page === undefined
              ? <Empty title="There is no such page"><a href={href("overview")}>To the overview</a></Empty>
              : <page.view key={`${route.page} ${route.params.topic !== undefined && route.page === "subscription" ? route.params.topic : ""} ${route.params.name ?? ""} ${route.params.id ?? ""}`} params={route.params} />}
          </main>
        </div>
      </div>
    </AppContext.Provider>
  );
}

function Start(): JSX.Element {
  const [visit, setVisit] = useState<{ number: number; refused?: CallError }>({ number: 0 });
  const about = useLoaded(`about ${visit.number}`, getAbout);
  useEffect(() => watchLogOut((refused) => setVisit((old) => ({ number: old.number + 1, refused }))), []);
  if (about.value !== undefined) return <Frame about={about.value} />;
  if (about.error === undefined) return <Waiting />;
  if (about.error.code !== "UNAUTHENTICATED") return <Problem error={about.error} retry={about.reload} />;
  return <LoginPage refused={visit.refused} onToken={() => setVisit((old) => ({ number: old.number + 1 }))} />;
}

const root = document.getElementById("page");
if (root !== null) render(<Start />, root);
