// SPDX-License-Identifier: Apache-2.0
//
// Makes the calls of a client on one stream. Internal to the library.

import * as protobuf from 'protobufjs/light';

import { BidiStream } from './bidi_stream';
import type { Connection } from './connection';
import { DuetimeError, errorOfItem } from './errors';
import type { Calls, CallStreamResponse, StreamedAnswer } from './types';

/** The trace context of a call, as the headers `traceparent` and `tracestate` of W3C. */
export interface TraceContext {
  traceparent?: string;
  tracestate?: string;
}

// The calls that travel on the stream: the number of the request's field in StreamedCall, and the name of the answer's field.
const GATHERED = {
  Schedule: { field: 3, answer: 'schedule' },
  Cancel: { field: 4, answer: 'cancel' },
  Reschedule: { field: 5, answer: 'reschedule' },
  Get: { field: 6, answer: 'get' },
} as const;

// The most calls and bytes of a frame.
const FRAME_CALLS_MAX = 1_000;
const FRAME_BYTES_MAX = 1 << 20;
// A larger request is a call of its own, so that it delays no other call.
const REQUEST_BYTES_MAX = 64 << 10;
// After a server refused the stream, calls are calls of their own for so many milliseconds.
const SEPARATE_PAUSE = 10_000;

/** The outcome of a call that has to be a call of its own. */
export const SEPARATE = Symbol('separate');

// A call until its outcome.
interface Waiting {
  field: number;
  request: Buffer;
  end: number; // of performance.now()
  trace: TraceContext | undefined;
  finish(outcome: StreamedAnswer | DuetimeError | typeof SEPARATE): void;
  // The stream that has the call, and its number there.
  sent: { stream: Stream; number: number } | undefined;
}

// One stream. It is half-closed when no call is open, because an open stream would keep the process alive.
class Stream {
  readonly open = new Map<number, Waiting>();
  sent = 0;
  served = false;
  writable = true;
  /** A caller gave up a call that the server may have. */
  abandoned = false;
  callsTaken: bigint | undefined;
  private readonly bidi: BidiStream<'CallStream'>;

  constructor(connection: Connection, onChange: () => void, onEnd: (stream: Stream, error: DuetimeError | undefined) => void) {
    this.bidi = new BidiStream(connection, 'CallStream', {
      onMessage: (response) => {
        this.take(response);
        onChange();
      },
      onDrain: () => {
        this.writable = true;
        onChange();
      },
      onEnd: (error) => onEnd(this, error),
    });
  }

  /** Sends one frame of the first of these calls, and removes them. */
  send(waiting: Set<Waiting>): void {
    const writer = protobuf.Writer.create();
    let bytes = 0;
    let calls = 0;
    for (const call of waiting) {
      if (calls === FRAME_CALLS_MAX || bytes + call.request.length > FRAME_BYTES_MAX) break;
      waiting.delete(call);
      call.sent = { stream: this, number: ++this.sent };
      this.open.set(this.sent, call);
      writeCall(writer, this.sent, call);
      bytes += call.request.length;
      ++calls;
    }
    this.writable = this.bidi.write(Buffer.from(writer.finish()));
  }

  /** Ends the stream after its answers. Nobody waits for those of abandoned calls. */
  end(): void {
    if (this.open.size === 0 && this.abandoned) this.bidi.cancel();
    else this.bidi.halfClose();
  }

  private take({ answers, callsTaken }: CallStreamResponse): void {
    this.callsTaken = callsTaken;
    this.served ||= answers.length > 0;
    for (const answer of answers) {
      const number = Number(answer.number);
      const call = this.open.get(number);
      this.open.delete(number);
      call?.finish(answer);
    }
  }
}

// Appends a StreamedCall to a CallStreamRequest. The request of the call is encoded already.
function writeCall(writer: protobuf.Writer, number: number, { field, request, end, trace }: Waiting): void {
  const left = Math.max(Math.ceil(end - performance.now()), 1);
  writer.uint32((1 << 3) | 2).fork();
  writer.uint32(1 << 3).int64(number);
  writer.uint32((field << 3) | 2).bytes(request);
  writer.uint32((7 << 3) | 2).fork();
  writer.uint32(1 << 3).int64(Math.floor(left / 1_000)).uint32(2 << 3).int32((left % 1_000) * 1_000_000).ldelim();
  if (trace?.traceparent) writer.uint32((8 << 3) | 2).string(trace.traceparent);
  if (trace?.tracestate) writer.uint32((9 << 3) | 2).string(trace.tracestate);
  writer.ldelim();
}

/** Calls that are made in one turn of the event loop, or while the stream takes no more bytes, travel in one frame. */
export class Gatherer {
  private readonly waiting = new Set<Waiting>();
  private stream: Stream | undefined;
  // The stream's channel. Another member of a cell needs another stream.
  private channel: object | undefined;
  private turn: NodeJS.Immediate | undefined;
  private separateUntil = 0;

  constructor(private readonly connection: Connection) {}

  /** Makes a call until this end of performance.now(). Returns SEPARATE if it has to be a call of its own. */
  async call<Name extends keyof Calls>(
    name: Name, request: Buffer, end: number, signal: AbortSignal | undefined, trace: TraceContext | undefined,
  ): Promise<Calls[Name]['response'] | typeof SEPARATE> {
    if (!Object.hasOwn(GATHERED, name) || request.length > REQUEST_BYTES_MAX) return SEPARATE;
    if (this.stream === undefined && performance.now() < this.separateUntil) return SEPARATE;
    const { field, answer } = GATHERED[name as keyof typeof GATHERED];
    const outcome = await this.outcomeOf(field, request, end, signal, trace);
    if (outcome === SEPARATE) return SEPARATE;
    if (outcome instanceof DuetimeError) throw outcome;
    const response = outcome[answer];
    if (response === undefined) throw errorOfItem(outcome.error);
    return response as Calls[Name]['response'];
  }

  /** Sends what waits, and no more. Open calls get their answers. */
  close(): void {
    if (this.waiting.size > 0) this.send();
    this.stream?.end();
    this.stream = undefined;
    this.finish(this.waiting, new DuetimeError('CANCELLED', 'the client was closed'));
  }

  private outcomeOf(
    field: number, request: Buffer, end: number, signal: AbortSignal | undefined, trace: TraceContext | undefined,
  ): Promise<StreamedAnswer | DuetimeError | typeof SEPARATE> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: unknown): void => {
        this.waiting.delete(call);
        if (call.sent !== undefined) {
          call.sent.stream.abandoned = true;
          call.sent.stream.open.delete(call.sent.number);
        }
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
        reject(error);
        this.onChange();
      };
      const abort = (): void => giveUp(signal!.reason);
      const timer = setTimeout(
        () => giveUp(new DuetimeError('DEADLINE_EXCEEDED', 'the deadline has passed before the server answered')),
        Math.max(Math.ceil(end - performance.now()), 1));
      signal?.addEventListener('abort', abort, { once: true });
      const call: Waiting = {
        field, request, end, trace, sent: undefined,
        finish: (outcome) => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', abort);
          resolve(outcome);
        },
      };
      this.waiting.add(call);
      this.onChange();
    });
  }

  // Acts at the end of the turn, when the callers whom a frame of answers has woken have made their next calls.
  private onChange(): void {
    this.turn ??= setImmediate(() => {
      this.turn = undefined;
      if (this.waiting.size > 0) {
        this.send();
      } else if (this.stream?.open.size === 0) {
        this.stream.end();
        this.stream = undefined;
      }
    });
  }

  private send(): void {
    try {
      const { channel } = this.connection;
      if (this.stream === undefined || this.channel !== channel) {
        this.stream?.end();
        this.channel = channel;
        this.stream = new Stream(this.connection, () => this.onChange(), (stream, error) => this.onEnd(stream, error));
      }
    } catch (error) {
      this.finish(this.waiting, error as DuetimeError);
      return;
    }
    while (this.waiting.size > 0 && this.stream.writable) this.stream.send(this.waiting);
  }

  private finish(calls: Set<Waiting>, outcome: DuetimeError | typeof SEPARATE): void {
    for (const call of calls) call.finish(outcome);
    calls.clear();
  }

  private onEnd(stream: Stream, error: DuetimeError | undefined): void {
    const ownStream = this.stream === stream;
    if (ownStream) this.stream = undefined;
    const { served, callsTaken } = stream;
    // Of a call, the last two say that it changed nothing. The stream may have begun the call.
    const lost = error === undefined || error.code === 'CANCELLED' || error.code === 'RESOURCE_EXHAUSTED'
      || (served && error.reason === 'NOT_LEADER');
    const outcome = lost
      ? new DuetimeError('UNAVAILABLE', 'the stream of calls ended; the outcome is unknown', {}, { cause: error })
      : error;
    // The server knows no such stream, has too many, or allows only smaller frames.
    const refused = (!served && (error?.code === 'UNIMPLEMENTED' || error?.code === 'RESOURCE_EXHAUSTED'))
      || (error?.code === 'INVALID_ARGUMENT' && callsTaken !== undefined);
    const noneTaken = !served && (error?.code === 'UNIMPLEMENTED' || error?.reason === 'STREAM_LIMIT');
    if (refused) {
      this.separateUntil = performance.now() + SEPARATE_PAUSE;
      if (ownStream) this.finish(this.waiting, SEPARATE);
    }
    const later = [...this.waiting];
    this.waiting.clear();
    for (const [number, call] of stream.open) {
      const notTaken = noneTaken || (callsTaken !== undefined && number > callsTaken);
      call.sent = undefined;
      if (notTaken && refused) call.finish(SEPARATE);
      // A stream that answered nothing would be followed by others like it.
      else if (notTaken && served) this.waiting.add(call);
      else call.finish(outcome);
    }
    stream.open.clear();
    for (const call of later) this.waiting.add(call);
    if (this.waiting.size > 0) this.onChange();
  }
}
