// SPDX-License-Identifier: Apache-2.0
//
// What the library logs. Internal to the library, except for its options.

import type { DuetimeError } from './errors';

/** Gets what the library logs. `console` is one, and so are the loggers of pino and winston. */
export interface Logger {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

const DEFAULT_LOGGER: Logger = {
  info: () => undefined,
  warn: (text) => console.warn(text),
  error: (text) => console.error(text),
};

/** The text of whatever was thrown. */
export function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error);
  } catch {
    return 'an error without a text';
  }
}

/** A logger that never throws. */
export class Log {
  constructor(private readonly logger: Logger = DEFAULT_LOGGER) {}

  // A property that is a function, so that whatever has a log cannot be cloned: a client without its methods would arrive in a worker thread.
  readonly write = (level: keyof Logger, text: string): void => {
    attempt(() => this.logger[level](`duetime: ${text}`), () => undefined);
  };

  /** Calls a function of the user. If the function throws, or its promise rejects, that is logged. */
  guard(name: string, call: () => unknown): void {
    attempt(call, (error) => this.write('error', `${name} threw: ${textOf(error)}`));
  }
}

function attempt(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const result = call() as PromiseLike<unknown> | undefined;
    if (typeof result?.then === 'function') Promise.resolve(result).catch(onError);
  } catch (error) {
    onError(error);
  }
}

const WAIT_MIN = 10_000;
const WAIT_MAX = 3_600_000;

/** Lets a repeated line through at once, after 10 s, after 20 s more, and so on up to each hour. */
export class Rarely {
  private next = -Infinity;
  private wait = WAIT_MIN;

  may(now: number): boolean {
    if (now < this.next) return false;
    // After a quiet time it begins anew.
    this.wait = now < this.next + this.wait ? Math.min(this.wait * 2, WAIT_MAX) : WAIT_MIN;
    this.next = now + this.wait;
    return true;
  }
}

/** Logs what happens to the connection of a subscriber: each change once, and a failure that lasts ever more rarely. */
export class ConnectionLog {
  private opened = false;
  private failingSince: number | undefined;
  private rarely = new Rarely();

  constructor(private readonly log: Log, private readonly who: string, private readonly address: string) {}

  /** A stream was opened. */
  onOpen(now: number): void {
    const change = this.opened ? 'is back at' : 'is connected to';
    if (this.failingSince !== undefined) {
      this.write('warn', `${change} ${this.address} after ${Math.round((now - this.failingSince) / 1000)} s`);
    } else if (!this.opened) {
      this.write('info', `${change} ${this.address}`);
    }
    this.opened = true;
    this.failingSince = undefined;
  }

  /** A stream has ended, or could not be opened, and will be tried again. */
  onFailure(error: DuetimeError | undefined, now: number): void {
    const lost = this.opened && this.failingSince === undefined;
    if (lost) this.rarely = new Rarely();
    this.failingSince ??= now;
    if (!this.rarely.may(now)) return;
    // Only an error of a server has a reason.
    const what = lost ? 'lost' : error?.reason ? 'is refused for now by' : 'cannot reach';
    // The text of an error may begin with the address, too.
    const text = error?.message ?? 'the server ended the stream';
    this.write('warn', `${what} ${text.startsWith(`${this.address}: `) ? '' : `${this.address}: `}${text}`);
  }

  /** The server refused the subscriber for good. */
  onRefusal({ code, message }: DuetimeError): void {
    this.write('error', `is refused by ${this.address} and ends: ${code}: ${message}`);
  }

  private write(level: keyof Logger, text: string): void {
    this.log.write(level, `${this.who} ${text}`);
  }
}
