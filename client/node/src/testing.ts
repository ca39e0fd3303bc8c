// SPDX-License-Identifier: Apache-2.0
//
// A server with a test clock, to test one's own code: `duetime/testing`. README.md has examples.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

import { Caller } from './caller';
import { Client, type ClientOptions } from './client';
import { Connection } from './connection';
import { DuetimeError } from './errors';
import type { Handler, Subscriber, SubscriberOptions } from './subscriber';
import type { Advanced, AdvanceLimits, HandOut } from './types';

// Ends the server and removes its directory ($0) when stop() closes the pipe, or when the process of the test has ended, however
// that was. Signals of the terminal are for the test, which then stops the server.
const KEEPER = `
trap '' HUP INT TERM
"$@" & server=$!
exec >/dev/null 2>&1
read -r _
kill -9 $server
wait $server
rm -rf "$0"
`;

const READY_MAX = 30_000;
const POLL = 2;
// How long a move of the clock may take by default, on the machine's clock.
const TIMEOUT = 10_000;
// The hand-outs that a move of the clock lists.
const HAND_OUTS_MAX = 10_000;
const LOG_LINES_MAX = 1_000;

/** Where the clock of a test server starts. The same in each run, so that a test has the same zone changes and weekdays. */
export const START = new Date('2030-01-01T00:00:00Z');

export interface TestServerOptions {
  /** The program duetimed. Default: that of the environment variable DUETIMED, or on PATH. Nothing is downloaded. */
  binary?: string;
  /** Where the clock starts. Default: START. */
  at?: Date;
}

/** How far the clock moves: milliseconds, or the sum of these. */
export type Duration = number | { days?: number; hours?: number; minutes?: number; seconds?: number; milliseconds?: number };

export interface AdvanceOptions {
  /** Waits at each event, and at the end, until subscribers have settled all that they have. Default: true. */
  untilIdle?: boolean;
  /** How many milliseconds the move may take, on the machine's clock. Default: 10,000. */
  timeout?: number;
}

/** The clock of a test server. It stands still, and moves when a test says so. */
export class TestClock {
  /** For TestServer. */
  readonly handOuts: HandOut[] = [];

  constructor(private readonly caller: Caller) {}

  /** Server time. */
  async now(): Promise<Date> {
    return (await this.caller.call('GetClock', {})).clock!.time!;
  }

  /**
   * Moves the clock: `advance({ hours: 48 })`. Each message on the way is handed out at its own time. The clock waits there until
   * subscribers have settled all that they have. Returns what happened. Throws DEADLINE_EXCEEDED, with the time at which the clock
   * stands, if subscribers or the server need longer than `timeout`.
   */
  advance(by: Duration, options: AdvanceOptions = {}): Promise<Advanced> {
    return this.move('Advance', { by: millisecondsOf(by) }, options);
  }

  /** Moves the clock to this time, as `advance`. */
  advanceTo(to: Date, options: AdvanceOptions = {}): Promise<Advanced> {
    return this.move('Advance', { to }, options);
  }

  /**
   * Moves the clock to the next time at which something happens to a message, as `advance`. If nothing does until then, `stop` of the
   * answer is STOP_NOTHING.
   */
  next({ until, ...options }: AdvanceOptions & { until?: Date } = {}): Promise<Advanced> {
    return this.move('AdvanceToNext', { until }, options);
  }

  private async move(name: 'Advance' | 'AdvanceToNext', target: object, options: AdvanceOptions): Promise<Advanced> {
    const { untilIdle = true, timeout = TIMEOUT } = options;
    const limits: Partial<AdvanceLimits> = { untilIdle, timeout, handOutsMax: HAND_OUTS_MAX };
    const advanced = (await this.caller.call(name, { ...target, limits }, {}, { extraTime: timeout })).advanced!;
    this.handOuts.push(...advanced.handOuts);
    const stands = `the clock stands at ${advanced.clock!.time!.toISOString()}, because`;
    if (advanced.stop === 'STOP_SUBSCRIBERS') {
      throw new DuetimeError('DEADLINE_EXCEEDED', `${stands} subscribers have messages whose handlers run or wait`);
    }
    if (advanced.stop === 'STOP_TIMEOUT') {
      throw new DuetimeError('DEADLINE_EXCEEDED', `${stands} the time was over before the server had done all`);
    }
    return advanced;
  }
}

function millisecondsOf(by: Duration): number {
  if (typeof by === 'number') return by;
  const { days = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0 } = by;
  return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000 + milliseconds;
}

function find(name: string): string {
  const paths = name.includes('/') ? [name] : (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, name));
  for (const path of paths) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Perhaps in the next one.
    }
  }
  throw new DuetimeError('FAILED_PRECONDITION', `there is no program ${name}: a test server needs duetimed, as the option binary, in ` +
    'the environment variable DUETIMED, or on PATH');
}

/**
 * A server of its own for a test, with a clock that stands still. It is duetimed itself, over an empty directory that `stop` removes. It
 * ends with the process of the test, too.
 */
export class TestServer {
  readonly clock: TestClock;
  private readonly connection: Connection;
  private readonly control: Caller;
  private clients: Client[] = [];
  private subscribers: Subscriber[] = [];

  /** Throws FAILED_PRECONDITION if there is no program duetimed, or it does not start. */
  static async start(options: TestServerOptions = {}): Promise<TestServer> {
    const binary = find(options.binary ?? (process.env.DUETIMED || 'duetimed'));
    const folder = mkdtempSync(join(tmpdir(), 'duetime-test-'));
    const child = spawn('sh', ['-c', KEEPER, folder, binary, '--init', `--data-dir=${folder}/data`, '--listen=127.0.0.1:0',
      '--metrics-listen=', '--disk-free-min-bytes=0', '--write-buffer-bytes=4MiB',
      `--test-clock=${(options.at ?? START).toISOString()}`, '--test-clock-frozen'],
    { stdio: ['pipe', 'ignore', 'pipe'] });
    const lines: string[] = [];
    const address = await new Promise<string | undefined>((resolve) => {
      const timer = setTimeout(resolve, READY_MAX, undefined);
      const end = (found?: string): void => {
        clearTimeout(timer);
        resolve(found);
      };
      createInterface({ input: child.stderr! }).on('close', end).on('line', (line) => {
        lines.push(line);
        if (lines.length > LOG_LINES_MAX) lines.shift();
        const ready = /\] ready: .* grpc=(\S+)/.exec(line);
        if (ready !== null) end(ready[1]);
      });
    });
    if (address === undefined) {
      await endOf(child);
      throw new DuetimeError('FAILED_PRECONDITION', `${binary} did not start:\n${lines.join('\n')}`);
    }
    // A test that forgets to stop its server still ends.
    child.unref();
    for (const pipe of [child.stdin, child.stderr]) (pipe as Socket).unref();
    return new TestServer(address, child, lines);
  }

  private constructor(
    /** host:port. */
    readonly address: string,
    private readonly child: ChildProcess,
    private readonly lines: string[],
  ) {
    this.connection = new Connection({ server: address });
    this.control = new Caller(this.connection, {});
    this.clock = new TestClock(this.control);
  }

  /** Ends the server at once, with its clients and those of its subscribers that `subscribe` started, and removes its directory. */
  async stop(): Promise<void> {
    await Promise.all(this.subscribers.map((one) => one.stop({ handlersTimeout: 0, confirmTimeout: 0 })));
    for (const client of this.clients) client.close();
    this.connection.close();
    await endOf(this.child);
  }

  /** The last lines of the server's log. */
  get log(): string {
    return this.lines.join('\n');
  }

  /** A client of the server. `stop` closes it. */
  client(options: ClientOptions = {}): Client {
    const client = new Client({ ...options, server: this.address });
    this.clients.push(client);
    return client;
  }

  /** Starts a subscriber, and waits until the server has it. `stop` stops it, without waiting for its handlers. */
  async subscribe(options: SubscriberOptions, handler: Handler): Promise<Subscriber> {
    const subscriber = this.client().subscribe(options, handler);
    this.subscribers.push(subscriber);
    await this.awaitSubscribers(options.topic);
    return subscriber;
  }

  /**
   * Waits until the topic has so many subscribers. A program's subscriber connects in the background; without it, a move of the clock
   * hands out nothing. Throws DEADLINE_EXCEEDED.
   */
  async awaitSubscribers(topic: string, count = 1, { timeout = TIMEOUT } = {}): Promise<void> {
    for (const end = performance.now() + timeout; ; await sleep(POLL)) {
      const there = (await this.control.call('ListStreams', { topic })).streams.length;
      if (there >= count) return;
      if (performance.now() > end) {
        throw new DuetimeError('DEADLINE_EXCEEDED', `the topic ${topic} has ${there} subscribers, and not ${count}`);
      }
    }
  }

  /**
   * Waits until subscribers have settled all that is due. The clock stands still, but for a millisecond if just then something is due.
   * Throws DEADLINE_EXCEEDED.
   */
  async idle({ timeout = TIMEOUT } = {}): Promise<void> {
    const now = await this.clock.now();
    await this.clock.next({ until: new Date(now.getTime() + 1), timeout });
  }

  /**
   * What the server handed out during moves of the clock, and `idle`, in order. What a subscriber got in between is not in it, and of one
   * move the first 10,000.
   */
  deliveries(topic: string): HandOut[] {
    return this.clock.handOuts.filter((one) => one.topic === topic);
  }
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  child.stdin!.end();
  await once(child, 'exit');
}

/** The hooks of node:test, Jest or Vitest. */
export interface Hooks {
  beforeEach: (hook: () => Promise<void>) => void;
  afterEach: (hook: () => Promise<void>) => void;
}

/** Gives each test a server of its own. Returns the function that returns it: `const server = testServer({ beforeEach, afterEach });` */
export function testServer({ beforeEach, afterEach }: Hooks, options: TestServerOptions = {}): () => TestServer {
  let server: TestServer;
  beforeEach(async () => {
    server = await TestServer.start(options);
  });
  afterEach(() => server.stop());
  return () => server;
}
