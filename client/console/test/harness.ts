// SPDX-License-Identifier: Apache-2.0
//
// The daemon, the console and the browser of a test, and the list of tests.

import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

export interface Programs {
  duetimed: string;
  duetime: string;
  assets: string;
}

const deadlineMs = 20_000;
const testDeadlineMs = 120_000;

// The developer's own settings lead to another server.
process.env.DUETIME_CONTEXT = "none";
delete process.env.DUETIME_SERVER;

const children: ChildProcess[] = [];
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));

// Repeats `read` until it returns something true.
export async function until<Value>(what: string, read: () => Promise<Value> | Value): Promise<NonNullable<Value>> {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = await Promise.resolve().then(read).catch(() => undefined);
    if (value) return value as NonNullable<Value>;
    assert.ok(Date.now() < end, `timeout: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function printed(child: ChildProcess, stream: "stdout" | "stderr", pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const timer = setTimeout(() => reject(new Error(`timeout: ${pattern} in ${text}`)), deadlineMs);
    child[stream]?.on("data", (data: Buffer) => {
      text += data.toString();
      const match = pattern.exec(text);
      if (match === null) return;
      clearTimeout(timer);
      resolve(match[1] ?? "");
    });
    child.once("exit", (code) => reject(new Error(`exit ${code}: ${text}`)));
  });
}

// Fails if the program does not end.
async function stopProgram(child: ChildProcess): Promise<void> {
  child.kill("SIGTERM");
  await until("the end of a program", () => child.exitCode !== null || child.signalCode !== null);
}

// More options of the programs; `directory` is a new one for the files that they name.
export type MoreOptions = (directory: string) => { daemon: string[]; console: string[] };

// A daemon with a fresh data directory, and its console.
export class Site {
  private constructor(
    private readonly programs: Programs,
    readonly directory: string,
    readonly server: string,
    readonly url: string,
    readonly daemon: ChildProcess,
    readonly console: ChildProcess,
  ) {}

  static async start(programs: Programs, moreOf: MoreOptions = () => ({ daemon: [], console: [] })): Promise<Site> {
    const directory = mkdtempSync(join(tmpdir(), "duetime-console-"));
    const own: ChildProcess[] = [];
    try {
      return await Site.startIn(directory, programs, moreOf(directory), own);
    } catch (error) {
      for (const child of own) await stopProgram(child);
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  private static async startIn(directory: string, programs: Programs, more: ReturnType<MoreOptions>, own: ChildProcess[]): Promise<Site> {
    const daemon = spawn(programs.duetimed, ["--data-dir", join(directory, "data"), "--init", "--shards", "2",
      "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", ...more.daemon], { stdio: ["ignore", "ignore", "pipe"] });
    own.push(daemon);
    children.push(daemon);
    let log = "";
    daemon.stderr?.on("data", (data: Buffer) => (log += data.toString()));
    const port = (pattern: RegExp) => until(`${pattern} in the log of the daemon`, () => pattern.exec(log)?.[1]);
    const server = `127.0.0.1:${await port(/ready: .* grpc=127\.0\.0\.1:(\d+)/)}`;
    const metrics = `127.0.0.1:${await port(/ready: .* metrics=127\.0\.0\.1:(\d+)/)}`;
    const child = spawn(programs.duetime, ["console", "--server", server, "--listen", "127.0.0.1:0", "--assets", programs.assets,
      "--metrics", metrics, ...more.console], { stdio: ["ignore", "pipe", "inherit"] });
    own.push(child);
    children.push(child);
    const url = await printed(child, "stdout", /(https?:\/\/\S+)\//);
    const site = new Site(programs, directory, server, url, daemon, child);
    // A console with a login has asked the daemon already.
    if (!more.console.includes("--login")) {
      await until("the daemon serves", async () => (await site.call("Admin/ServerInfo", {})).state === "SERVING_STATE_SERVING");
    }
    return site;
  }

  // A call as the page makes it.
  async call(name: string, body: object): Promise<any> {
    const response = await fetch(`${this.url}/api/duetime.v1.${name}`, {
      method: "POST", headers: { "Content-Type": "application/json", "X-Duetime-Console": "1" }, body: JSON.stringify(body),
    });
    const answer = (await response.json()) as any;
    assert.ok(response.ok, `${name}: ${JSON.stringify(answer)}`);
    return answer;
  }

  // Schedules a message and returns its id.
  async schedule(request: object): Promise<string> {
    return (await this.call("Messages/Schedule", { delay: "86400s", ...request })).message.id;
  }

  // Runs a command line in a shell, as a person who copied it from the page.
  shell(command: string): { status: number | null; out: string } {
    const result = spawnSync("bash", ["-c", command], {
      env: { ...process.env, PATH: `${dirname(this.programs.duetime)}:${process.env.PATH}` }, encoding: "utf8", timeout: deadlineMs,
    });
    return { status: result.status, out: result.stdout + result.stderr };
  }

  // Runs the tool until `stop`.
  spawn(words: string[]): { stop: () => Promise<void> } {
    const child = spawn(this.programs.duetime, [...words, "--server", this.server], { stdio: ["ignore", "ignore", "ignore"] });
    children.push(child);
    return { stop: () => stopProgram(child) };
  }

  // Another console of the same daemon.
  async another(options: string[]): Promise<Site> {
    const child = spawn(this.programs.duetime, ["console", "--server", this.server, "--listen", "127.0.0.1:0", "--assets", this.programs.assets, ...options],
      { stdio: ["ignore", "pipe", "inherit"] });
    children.push(child);
    const url = await printed(child, "stdout", /(https?:\/\/\S+)\//);
    return new Site(this.programs, this.directory, this.server, url, this.daemon, child);
  }

  stopConsole(): Promise<void> {
    return stopProgram(this.console);
  }

  async stop(): Promise<void> {
    for (const child of [this.console, this.daemon]) await stopProgram(child);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export type Test = [name: string, run: () => Promise<void> | void];

const testsAtOnce = 3;

// Runs the tests, some at once, and prints each failure. No test depends on another one.
export async function runTests(tests: Test[]): Promise<{ passed: number; failed: number }> {
  const counts = { passed: 0, failed: 0 };
  const rest = [...tests];
  const worker = async (): Promise<void> => {
    for (let next = rest.shift(); next !== undefined; next = rest.shift()) await runTest(next, counts);
  };
  await Promise.all(Array.from({ length: testsAtOnce }, worker));
  return counts;
}

async function runTest([name, run]: Test, counts: { passed: number; failed: number }): Promise<void> {
  const start = Date.now();
  const late = new Promise<never>((_resolve, reject) => setTimeout(() => reject(new Error("timeout")), testDeadlineMs).unref());
  try {
    // A test that throws at once must not leave `late` without a listener.
    await Promise.race([Promise.resolve().then(run), late]);
    counts.passed += 1;
    console.log(`ok      ${name} (${Date.now() - start} ms)`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAILED  ${name}\n${error instanceof Error ? error.stack : String(error)}`);
  }
}

