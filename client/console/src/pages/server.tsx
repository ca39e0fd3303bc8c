// SPDX-License-Identifier: Apache-2.0
//
// The server: state, clock, limits, configuration, damage.

import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import { getMetrics } from "../api";
import { useApp } from "../app";
import { commandLine } from "../command";
import { parseMetrics } from "../metrics";
import { useLoaded } from "../poll";
import { countText, visibleText, wordOf } from "../text";
import { durationMs, spanText } from "../time";
import type { ServerInfo } from "../types";
import { CommandBox, Empty, Facts, Problem, Shown, Table, Waiting, When, rowsOf } from "../ui";

function limitText(name: string, value: string | number | boolean): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  const text = String(value);
  return /^[\d.]+s$/.test(text) ? spanText(durationMs(text)) : `${countText(text)}${name.includes("bytes") ? " bytes" : ""}`;
}

export function ServerPage(): JSX.Element {
  const { info, about, trouble } = useApp();
  if (info === undefined) return trouble ? <></> : <Waiting />;
  return (
    <>
      <div class="head"><h1>Server</h1></div>
      <section class="panel">
        <div class="title"><h2>State</h2></div>
        <Facts facts={[
          ["Address", <Shown text={about.server} />],
          ["Version", info.version],
          ["State", wordOf(info.state, "SERVING_STATE_")],
          ["Started", <When time={info.start_time} />],
          ["Starts of the data directory", countText(info.epoch)],
          ["Shards", String(info.shards)],
          ["Disk", info.disk_low ? "low: new messages are refused" : "enough"],
          ["Server time", <When time={info.server_time} relative={false} />],
          ["Clock", clockText(info)],
          ["Console", `duetime ${about.version}`],
        ]} />
      </section>
      <Damage info={info} />
      <Folded title="Limits" note="the configuration bounds them">
        <Facts facts={Object.entries(info.limits).map(([name, value]) => [name, limitText(name, value)])} />
      </Folded>
      <Folded title="Counts" note="counters since the start of the server, and current numbers">
        <Facts facts={Object.entries(info.counts ?? {}).map(([name, value]) => [name, countText(value)])} />
      </Folded>
      <Configuration on={about.metrics} />
      <CommandBox command={commandLine(about.options, "info", [])} />
    </>
  );
}

// A section with many lines: folded on a narrow screen, where it would be very long.
function Folded({ title, note, children }: { title: string; note: string; children: ComponentChildren }): JSX.Element {
  return (
    <details class="panel" open={rowsOf(Infinity) === Infinity}>
      <summary><h2>{title}</h2> <span class="quiet">{note}</span></summary>
      {children}
    </details>
  );
}

function clockText(info: ServerInfo): string {
  if (info.clock_state === "CLOCK_STATE_TEST") return "a test clock";
  if (info.clock_state === "CLOCK_STATE_NORMAL") return "agrees with the steady clock";
  return info.clock_state === "CLOCK_STATE_AHEAD" ? "jumped ahead; the server's time does not follow" : "was set back, and the server's time with it";
}

function Damage({ info }: { info: ServerInfo }): JSX.Element {
  const damage = info.damage;
  return (
    <section class="panel">
      <div class="title"><h2>Damage on disk</h2></div>
      {damage === undefined ? <p class="quiet">None was found since the start of the server.</p> : (
        <>
          {damage.stopped_families.length > 0 && <div class="notice"><p>Compactions are stopped for: {damage.stopped_families.join(", ")}. The data directory needs a repair.</p></div>}
          <Table caption="Damaged blocks" rows={damage.blocks} keyOf={(one) => `${one.file} ${one.offset}`} columns={[
            { title: "File", cell: (one) => <Shown text={one.file} /> },
            { title: "Offset", right: true, cell: (one) => countText(one.offset) },
            { title: "Holds", cell: (one) => <Shown text={one.family} /> },
            { title: "From", wide: true, cell: (one) => <Shown text={one.first_key} /> },
            { title: "To", wide: true, cell: (one) => <Shown text={one.last_key} /> },
          ]} />
          <p class="quiet">{countText(damage.blocks_total)} in all. Messages in a damaged block are not delivered; everything else is served.</p>
        </>
      )}
    </section>
  );
}

function Configuration({ on }: { on: boolean }): JSX.Element {
  const loaded = useLoaded("configuration", async () => (on ? parseMetrics(await getMetrics()) : []));
  const knobs = useMemo(() => (loaded.value ?? []).filter((one) => one.name === "duetime_config"), [loaded.value]);
  return (
    <Folded title="Configuration" note="numbers in force, each in the unit of its name">
      <Problem error={loaded.error} retry={loaded.reload} />
      {!on ? <Empty title="Not known to the console"><span>The server has no call for it, but its metrics have the numbers: start the console with <code>--metrics
          127.0.0.1:7789</code>. All knobs: <code>duetimed --help</code></span></Empty>
        : loaded.value === undefined ? !loaded.error && <Waiting />
        : <Facts facts={knobs.map((one): [string, string] => [visibleText(one.labels.knob ?? ""), countText(one.value)])} />}
    </Folded>
  );
}
