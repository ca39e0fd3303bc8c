// SPDX-License-Identifier: Apache-2.0
//
// Makes unary calls with the deadline, the retries and the errors that the library promises. Internal to the library, except for
// its options.

import { setTimeout as sleep } from 'node:timers/promises';

import { Metadata } from '@grpc/grpc-js';

import { Backoff, type BackoffOptions } from './backoff';
import { rpcOf } from './codec';
import { type Connection, LEADER_PAUSE } from './connection';
import { DuetimeError, encodeRequest } from './errors';
import { type Gatherer, SEPARATE, type TraceContext } from './gatherer';
import { RetryBudget } from './retry_budget';
import type { Calls } from './types';

/** The options of one call. */
export interface CallOptions {
  /** The deadline of the call in milliseconds, including its retries. Default: that of the client. */
  timeout?: number;
  /** Cancels the call, which then throws the signal's reason. The outcome is unknown. */
  signal?: AbortSignal;
}

/** The limits of calls. */
export interface CallLimits {
  /** The deadline of a call in milliseconds, including its retries. Default: 10,000. */
  timeout?: number;
  /**
   * The most tries of a call that may be repeated. 1: no repeat. Default: 0, no limit but the deadline of the call and the client's
   * budget of repeats, which bounds the load on a server that fails.
   */
  triesMax?: number;
  /** The waits between tries. */
  backoff?: BackoffOptions;
  /** Returns the trace context of the call that is being made. Called once for each try. */
  traceContext?: () => TraceContext;
}

// The least wait of a call, in milliseconds. Instead of a wait that would pass its deadline, it waits half of the time that is left,
// down to this.
const WAIT_MIN = 50;

// Returns true for an error with which a server that works has answered.
function isAnswer({ code }: DuetimeError): boolean {
  return code !== 'UNAVAILABLE' && code !== 'DEADLINE_EXCEEDED' && code !== 'CANCELLED';
}

// A call without a token of the budget looks for one again after so many milliseconds. It must not miss those that others return.
const TOKEN_PAUSE = 100;

// gRPC's deadlines are Dates. A longer deadline would overflow the timer.
const TIMEOUT_MAX = 24 * 24 * 3_600_000;

export class Caller {
  private readonly timeout: number;
  private readonly triesMax: number;

  constructor(
    private readonly connection: Connection,
    private readonly limits: CallLimits,
    private readonly gatherer?: Gatherer,
    private readonly budget = new RetryBudget(performance.now()),
  ) {
    this.timeout = limits.timeout ?? 10_000;
    this.triesMax = limits.triesMax || Infinity;
  }

  /** A caller over another connection, for the same client. */
  over(connection: Connection): Caller {
    return new Caller(connection, this.limits, undefined, this.budget);
  }

  /** Calls until success, an error that forbids a repeat, or the deadline. Returns the answer, and if it is that of a repeat. Without `repeat`, it makes one try. */
  async callAndCount<Name extends keyof Calls>(
    name: Name,
    request: object,
    options: CallOptions = {},
    { extraTime = 0, repeat = true } = {},
  ): Promise<{ response: Calls[Name]['response']; triedBefore: boolean }> {
    const timeout = Math.min((options.timeout ?? this.timeout) + extraTime, TIMEOUT_MAX);
    // A clock that no step of the wall clock moves.
    const deadline = performance.now() + timeout;
    const backoff = new Backoff(this.limits.backoff);
    const rpc = rpcOf(name);
    const mayRepeat = repeat && allowsRepeat(rpc.repeat, request);
    const bytes = encodeRequest(rpc.request, request);
    if (!(timeout > 0)) throw new DuetimeError('DEADLINE_EXCEEDED', 'the deadline of the call is not in the future');
    this.budget.onCall();
    let paid = false;
    for (let tries = 1; ; ++tries) {
      try {
        const answer = await this.tryOnce(name, bytes, deadline, options.signal);
        if (paid) this.budget.giveBack();
        paid = false;
        return { response: answer, triedBefore: tries > 1 };
      } catch (error) {
        if (!(error instanceof DuetimeError)) throw error;
        this.connection.onError(error);
        const pause = async (wait: number): Promise<void> => {
          const left = deadline - performance.now();
          if (wait >= left) {
            wait = left / 2;
            if (wait < Math.max(WAIT_MIN, error.retryDelay ?? 0)) throw error;
          }
          await sleep(wait, undefined, { signal: options.signal }).catch(() => options.signal?.throwIfAborted());
        };
        const refused = this.connection.refusedByStandby(error);
        if (paid && (refused || isAnswer(error))) this.budget.giveBack();
        paid = false;
        if (refused) {
          --tries;
          await pause(LEADER_PAUSE);
          continue;
        }
        if (error.code !== 'UNAVAILABLE' || !mayRepeat || tries >= this.triesMax) throw error;
        for (let wait = backoff.next(error.retryDelay); !paid; wait = TOKEN_PAUSE) {
          await pause(wait);
          paid = this.budget.take(performance.now());
        }
      }
    }
  }

  async call<Name extends keyof Calls>(
    name: Name,
    request: object,
    options?: CallOptions,
    more?: { extraTime?: number; repeat?: boolean },
  ): Promise<Calls[Name]['response']> {
    return (await this.callAndCount(name, request, options, more)).response;
  }

  private async tryOnce<Name extends keyof Calls>(
    name: Name, request: Buffer, end: number, signal: AbortSignal | undefined,
  ): Promise<Calls[Name]['response']> {
    signal?.throwIfAborted();
    const channel = this.connection.channel ?? (await this.connection.find(end - performance.now(), signal));
    const trace = this.limits.traceContext?.();
    const outcome = await this.gatherer?.call(name, request, end, signal, trace);
    if (outcome !== undefined && outcome !== SEPARATE) return outcome;
    signal?.throwIfAborted();
    const { path, response } = rpcOf(name);
    const metadata = new Metadata();
    if (trace?.traceparent) metadata.set('traceparent', trace.traceparent);
    if (trace?.tracestate) metadata.set('tracestate', trace.tracestate);
    const answer = await new Promise<Buffer>((resolve, reject) => {
      const abort = (): void => {
        reject(signal!.reason);
        call.cancel();
      };
      const deadline = new Date(Date.now() + end - performance.now());
      const bytesAsTheyAre = (bytes: Buffer): Buffer => bytes;
      const call = channel.makeUnaryRequest(
        path, bytesAsTheyAre, bytesAsTheyAre, request, metadata, { deadline }, (error, answer) => {
          signal?.removeEventListener('abort', abort);
          if (error !== null) reject(this.connection.errorOf(error));
          else resolve(answer!);
        });
      signal?.addEventListener('abort', abort, { once: true });
    });
    return response.decode(answer);
  }
}

// What the protos say: whether a repeat neither does harm nor gives a misleading answer.
function allowsRepeat(rule: string, request: { etag?: string }): boolean {
  if (rule === 'CALL_REPEAT_WITHOUT_ETAG') return !request.etag;
  // The client names what the server recognises by a name, unless its caller forbids a repeat.
  return ['CALL_REPEAT_READ', 'CALL_REPEAT_SAFE', 'CALL_REPEAT_IF_NAMED'].includes(rule);
}
