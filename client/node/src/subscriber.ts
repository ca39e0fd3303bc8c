// SPDX-License-Identifier: Apache-2.0

import { Backoff, type BackoffOptions } from './backoff';
import { BidiStream } from './bidi_stream';
import type { ServerOptions } from './channel';
import { rpcOf } from './codec';
import { Connection, LEADER_PAUSE } from './connection';
import { DuetimeError, encodeRequest } from './errors';
import { ConnectionLog, Rarely, textOf } from './log';
import { checkSettlement, checkSettlements, Settlement } from './settlement';
import { type SubscriberCounts, SubscriberState, type Work } from './subscriber_state';
import type { Delivery, SubscribeResponse } from './types';

/** All times are milliseconds. */
export interface SubscriberOptions {
  topic: string;
  /**
   * The subscription to read. Default: "default". The first use creates it, unless the server is configured otherwise. Subscribers of
   * one subscription share its messages.
   */
  subscription?: string;
  /** Names this subscriber in the server's logs. */
  clientId?: string;
  /** Credit: the most messages and bytes that are delivered and not settled. Default: the server's (1,000 messages, 64 MiB). */
  maxOutstandingMessages?: number;
  maxOutstandingBytes?: number;
  /**
   * The lease of a delivery. Default: that of the subscription (30 s). When this program dies, other subscribers get its messages
   * after this time. Handlers may take longer, see `extendMax`.
   */
  lease?: number;
  /**
   * For how long the subscriber extends the lease of a delivery while its handler runs. Afterwards the lease ends, and the message
   * goes to another subscriber. A delivery that waits for a handler for as long is given back. 0: the subscriber extends no lease.
   * Default: 1 hour.
   */
  extendMax?: number;
  /** How many calls of the handler may run at once. With 1, the handler gets deliveries in the order of the stream. Default: 1. */
  handlers?: number;
  /** The most deliveries in one call of the handler of `subscribeBatch`. The credit bounds a batch as well. Default: 100. */
  batchMax?: number;
  /** The waits before a new stream. None is shorter than 50 ms. */
  backoff?: BackoffOptions;
  /** A stream ends if the server is silent for this long. The server sends a heartbeat every 15 s by default. Default: 60,000. */
  silenceMax?: number;
  /** Gets the cause when a stream has ended and a new one will be opened. Absent if the server ended it with OK. */
  onDisconnect?: (error: DuetimeError | undefined) => void;
  /** Stops the subscriber, as `stop()`. */
  signal?: AbortSignal;
}

export interface HandlerContext {
  /**
   * Aborts if the delivery's lease is lost: its stream ended, or the server says so. The message comes again. Of a batch, all leases
   * are lost.
   */
  readonly signal: AbortSignal;
}

/**
 * Handles a delivery. Returning nothing acks it. A throw nacks it with the error's message, and is logged. A handler that keeps the thread busy
 * delays the extension of leases: let it await, or move the work to another thread.
 */
export type Handler = (delivery: Delivery, context: HandlerContext) => Settlement | void | Promise<Settlement | void>;

/**
 * Handles the deliveries that have arrived when the handler is free, in the order of the stream. No delivery waits for others, so there may
 * be one. Returns a settlement for each delivery, in their order; nothing or an empty list acks all. A throw nacks all, and so does any
 * other number of settlements; both are logged. The settlement of a delivery whose lease was lost has no effect.
 */
export type BatchHandler =
  (deliveries: Delivery[], context: HandlerContext) => readonly Settlement[] | void | Promise<readonly Settlement[] | void>;

/** Calls a handler. Returns one settlement for each delivery, or one for all. */
export type Runner = (deliveries: Delivery[], context: HandlerContext) => Promise<Settlement | readonly Settlement[]>;

export function runnerOf(handler: Handler): Runner {
  return async (deliveries, context) => checkSettlement(await handler(deliveries[0]!, context));
}

export function batchRunnerOf(handler: BatchHandler): Runner {
  return async (deliveries, context) => {
    const count = deliveries.length; // The list is the handler's.
    return checkSettlements(await handler(deliveries.slice(), context), count);
  };
}

export interface StopOptions {
  /** How long to wait for running handlers. Default: without limit. */
  handlersTimeout?: number;
  /** How long to wait then for the server to confirm the settlements. Default: 5,000. */
  confirmTimeout?: number;
}

const TIMER_MAX = 0x7fffffff;
const RECONNECT_WAIT_MIN = 50;
// If a stream is not open after this time, the log says so.
const OPEN_TIME = 5_000;
// How long a silent stream may still hand over what arrived while this thread was busy.
const SILENCE_GRACE = 100;

// A new stream can only fail in the same way.
const PERMANENT = new Set([
  'INVALID_ARGUMENT', 'NOT_FOUND', 'ALREADY_EXISTS', 'PERMISSION_DENIED', 'UNAUTHENTICATED', 'FAILED_PRECONDITION', 'OUT_OF_RANGE',
  'UNIMPLEMENTED',
]);

/**
 * Keeps one stream to the server open until `stop`, or until the server refuses it for a permanent reason.
 *
 * All settlements since the last request are sent as one request, so load makes batches and no timer is needed. When a stream ends,
 * deliveries without a handler are dropped (the server delivers them again), and a new stream opens after a backoff. After a drain
 * notice the subscriber first handles and settles its deliveries. A message can come more than once: `delivery.messageId` is the same
 * each time, and `delivery.maybeRedelivered` says when to check.
 */
export class Subscriber {
  /** Resolves when the subscriber has ended: with nothing after `stop`, else with the error for which the server refused it. */
  readonly ended: Promise<DuetimeError | undefined>;

  private readonly state: SubscriberState;
  private readonly startRequest: Buffer;
  private connection: Connection;
  private stream: BidiStream<'Subscribe'> | undefined;
  private writable = true;
  private halfClosed = false;
  private lastResponse = 0;
  private readonly connectionLog: ConnectionLog;
  private readonly handlerErrors = new Rarely();
  private closing = false;
  private flushing = false;
  private requestTimer: NodeJS.Timeout | undefined;
  // Say to running handlers that a lease is lost, by lease token.
  private readonly aborts = new Map<string, () => void>();
  private waiting: (() => void)[] = [];
  private stopped: Promise<boolean> | undefined;

  /** Use Client.subscribe. */
  constructor(private readonly server: ServerOptions, private readonly options: SubscriberOptions, private readonly run: Runner,
    batchMax = 1) {
    const { topic, subscription, clientId, maxOutstandingMessages, maxOutstandingBytes, lease, signal } = options;
    this.startRequest = encodeRequest(rpcOf('Subscribe').request, {
      start: {
        topic, subscription, clientId, maxOutstandingMessages, maxOutstandingBytes, leaseDuration: lease || undefined,
        reportsBegun: true,
      },
    });
    this.state = new SubscriberState(Math.max(options.handlers ?? 1, 1), options.extendMax ?? 3_600_000,
      (token) => {
        this.aborts.get(token)?.();
        this.aborts.delete(token);
      }, batchMax);
    this.connection = new Connection(server);
    const who = `the subscriber of topic ${topic}, subscription ${subscription || 'default'},`;
    this.connectionLog = new ConnectionLog(this.connection.log, who, this.connection.address);
    this.ended = this.keepConnected().finally(() => this.connection.close());
    if (signal?.aborted) void this.stop();
    else signal?.addEventListener('abort', () => void this.stop(), { once: true });
  }

  get counts(): SubscriberCounts {
    return { ...this.state.counts };
  }

  /**
   * Ends the subscriber. Starts no further handler and releases the deliveries without one, waits for running handlers, waits for the
   * server to confirm the settlements, and closes the stream. Returns true if every handler returned and every settlement was
   * confirmed; otherwise those messages come again. The settlement of a handler that still runs is not sent. Idempotent.
   */
  stop(options: StopOptions = {}): Promise<boolean> {
    this.stopped ??= this.stopOnce(options);
    return this.stopped;
  }

  private async stopOnce({ handlersTimeout = Infinity, confirmTimeout = 5_000 }: StopOptions): Promise<boolean> {
    this.state.requestStop();
    this.changed();
    const handled = await this.until(() => this.state.running === 0, handlersTimeout);
    await this.until(() => this.state.answered, confirmTimeout);
    const { clean } = this.state;
    this.closing = true;
    this.stream?.cancel();
    this.changed();
    await this.ended;
    return handled && clean;
  }

  private async keepConnected(): Promise<DuetimeError | undefined> {
    const backoff = new Backoff(this.options.backoff);
    // The caller of the constructor gets the subscriber before its first event.
    await Promise.resolve();
    while (!this.closing) {
      const opened = performance.now();
      const error = await this.runStream();
      if (error !== undefined && PERMANENT.has(error.code)) {
        this.connectionLog.onRefusal(error);
        return error;
      }
      // A stream that lived longer than the longest wait starts the backoff anew.
      if (performance.now() - opened > backoff.max) backoff.reset();
      if (this.state.stopping) break;
      this.connectionLog.onFailure(error, performance.now());
      this.connection.log.guard('onDisconnect', () => this.options.onDisconnect?.(error));
      const wait = this.connection.refusedByStandby(error) ? LEADER_PAUSE : backoff.next(error?.retryDelay);
      await this.until(() => this.state.stopping, Math.max(wait, RECONNECT_WAIT_MIN));
      if (this.state.stopping) break;
    }
    return undefined;
  }

  // Runs one stream from its opening to its end. Returns the error that ended it.
  private async runStream(): Promise<DuetimeError | undefined> {
    let silent = false;
    let watch: NodeJS.Timeout | undefined;
    const error = await new Promise<DuetimeError | undefined>((resolve) => {
      this.state.beginStream();
      this.writable = true;
      this.halfClosed = false;
      this.lastResponse = performance.now();
      this.stream = new BidiStream(this.connection, 'Subscribe', {
        onMessage: (response) => this.onResponse(response),
        onDrain: () => {
          this.writable = true;
          this.changed();
        },
        onEnd: resolve,
      });
      this.writable = this.stream.write(this.startRequest);
      watch = this.watchSilence(() => {
        silent = true;
        this.stream?.cancel();
      });
    });
    clearInterval(watch);
    clearTimeout(this.requestTimer);
    this.stream = undefined;
    this.state.endStream();
    for (const abort of this.aborts.values()) abort();
    this.aborts.clear();
    this.changed();
    if (!silent) return error;
    // The connection may be dead without a sign of it, so the next stream gets a new one.
    this.connection.close();
    this.connection = new Connection(this.server);
    return new DuetimeError('UNAVAILABLE', `no sign of life from the server for ${this.silenceMax} ms`);
  }

  private get silenceMax(): number {
    return Math.min(Math.max(this.options.silenceMax ?? 60_000, 1), TIMER_MAX);
  }

  private watchSilence(onSilent: () => void): NodeJS.Timeout {
    let suspected: number | undefined;
    const opened = performance.now();
    const { streams } = this.state.counts;
    return setInterval(() => {
      if (this.state.counts.streams === streams && performance.now() - opened >= OPEN_TIME) {
        const cause = this.connection.failure ?? 'no answer yet';
        this.connectionLog.onFailure(new DuetimeError('UNAVAILABLE', cause), performance.now());
      }
      if (performance.now() - this.lastResponse < this.silenceMax) {
        suspected = undefined;
      } else if (suspected === undefined) {
        suspected = performance.now();
      } else if (performance.now() - suspected >= SILENCE_GRACE) {
        onSilent();
      }
    }, Math.min(Math.max(this.silenceMax / 10, 20), 1_000));
  }

  private onResponse(response: SubscribeResponse): void {
    this.lastResponse = performance.now();
    if (response.started !== undefined) this.connectionLog.onOpen(this.lastResponse);
    this.state.onResponse(response, this.lastResponse);
    this.changed();
  }

  // Call after each change of the state: starts handlers, sends what there is to send, and wakes what waits.
  private changed(): void {
    const take = (): Work | undefined => this.state.takeWork(performance.now());
    for (let work = take(); work !== undefined; work = take()) void this.handle(work);
    for (const resolve of this.waiting.splice(0)) resolve();
    if (this.flushing) return;
    // Later, so that all settlements of this turn share a request.
    this.flushing = true;
    setImmediate(() => {
      this.flushing = false;
      this.flush();
    });
  }

  private async handle(work: Work): Promise<void> {
    const { deliveries } = work;
    let controller: AbortController | undefined;
    // How many leases are not lost.
    let live = deliveries.length;
    const abort = (): void => {
      if (--live === 0) controller?.abort();
    };
    const context: HandlerContext = {
      get signal() {
        controller ??= new AbortController();
        if (live === 0) controller.abort();
        return controller.signal;
      },
    };
    for (const { leaseToken } of deliveries) this.aborts.set(leaseToken, abort);
    let settlements: Settlement | readonly Settlement[];
    try {
      settlements = await this.run(deliveries, context);
    } catch (error) {
      settlements = Settlement.nack({ reason: textOf(error) });
      if (this.handlerErrors.may(performance.now())) {
        const others = deliveries.length > 1 ? `, and ${deliveries.length - 1} more` : '';
        this.connection.log.write('error',
          `a handler threw, so message ${deliveries[0]!.messageId} is nacked${others}: ${textOf(error)}`);
      }
    }
    for (const { leaseToken } of deliveries) {
      if (this.aborts.get(leaseToken) === abort) this.aborts.delete(leaseToken);
    }
    this.state.settle(work, settlements);
    this.changed();
  }

  private flush(): void {
    if (this.stream === undefined || this.halfClosed) return;
    clearTimeout(this.requestTimer);
    while (this.writable) {
      const request = this.state.takeRequest(performance.now());
      if (request === undefined) break;
      this.writable = this.stream.write(this.stream.encode(request));
    }
    if (this.state.drained) {
      this.halfClosed = true;
      this.stream.halfClose();
      return;
    }
    const next = this.state.nextRequest();
    if (next === undefined || !this.writable) return;
    this.requestTimer = setTimeout(() => this.flush(), Math.min(Math.max(next - performance.now(), 1), TIMER_MAX));
  }

  // Waits for the condition, but not longer than `timeout`. Returns true if the condition holds.
  private async until(condition: () => boolean, timeout: number): Promise<boolean> {
    const end = performance.now() + timeout;
    while (!condition()) {
      const left = end - performance.now();
      if (left <= 0) return false;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, TIMER_MAX));
        this.waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
    return true;
  }
}
