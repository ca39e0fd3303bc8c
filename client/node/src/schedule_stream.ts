// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from 'node:crypto';

import { BidiStream } from './bidi_stream';
import type { NewMessage } from './client';
import type { Connection } from './connection';
import { DuetimeError } from './errors';
import { responseOf, type ScheduleItemResult } from './schedule_result';
import type { ScheduleStreamResponse } from './types';

export interface ScheduleStreamOptions {
  /** Gets the result of the message with this number, in order. Messages are numbered from 0 over all frames, in the order of sending. */
  onResult: (number: number, result: ScheduleItemResult) => void;
  /** The most frames without an answer; at least 1. With that many, `send` waits. Default: 8. */
  framesMax?: number;
  /** The stream ends if frames wait and the server answers none of them for this long. Default: 30,000 ms. */
  answerTimeout?: number;
}

/**
 * Schedules many messages on one stream, in frames of many. It does not reconnect.
 *
 * Every message below `answered` has its result: accepted durably, or refused. Once the stream has ended, the outcome of the messages
 * from `answered` to `sent` is unknown. `takeUnanswered` returns these with their request ids. The server remembers the ids for an
 * hour, so sending the messages again on another stream makes no second message.
 */
export class ScheduleStream {
  private readonly stream: BidiStream<'ScheduleStream'>;
  private readonly framesMax: number;
  private readonly answerTimeout: number;
  private readonly onResult: ScheduleStreamOptions['onResult'];
  private readonly frames: NewMessage[][] = [];
  private sentCount = 0;
  private answeredCount = 0;
  private finishing = false;
  private writable = true;
  // Why this side broke the stream: it explains more than the cancellation.
  private broken: DuetimeError | undefined;
  private end: { error: DuetimeError | undefined } | undefined;
  private waiting: (() => void)[] = [];
  private timer: NodeJS.Timeout | undefined;

  /** Use Client.scheduleStream. */
  constructor(private readonly connection: Connection, options: ScheduleStreamOptions) {
    this.framesMax = Math.max(options.framesMax ?? 8, 1);
    this.answerTimeout = options.answerTimeout ?? 30_000;
    this.onResult = options.onResult;
    this.stream = new BidiStream(connection, 'ScheduleStream', {
      onMessage: (frame) => this.take(frame),
      onDrain: () => {
        this.writable = true;
        this.wake();
      },
      onEnd: (error) => this.onEnd(error),
    });
  }

  /** The number of messages that `send` got. */
  get sent(): number {
    return this.sentCount;
  }

  /** The number of messages with a result. */
  get answered(): number {
    return this.answeredCount;
  }

  /**
   * Sends one frame. A message without a `requestId` gets a random one. Waits while `framesMax` frames have no answer, and while the
   * connection takes no more bytes. It returns when the frame is sent, which does not mean accepted.
   *
   * A DuetimeError means that the stream has ended; `takeUnanswered` then returns this frame too. After `finish` the frame is not kept
   * (FAILED_PRECONDITION).
   */
  async send(messages: readonly NewMessage[]): Promise<void> {
    const frame = messages.map((message) => (message.requestId ? message : { ...message, requestId: randomUUID() }));
    const bytes = this.stream.encode({ messages: frame });
    if (this.finishing) throw new DuetimeError('FAILED_PRECONDITION', 'the stream was finished');
    // Keep the messages first, so that no error loses them.
    this.frames.push(frame);
    this.sentCount += frame.length;
    if (this.end === undefined) {
      this.writable = this.stream.write(bytes);
      this.watch();
    }
    while (this.end === undefined && (this.frames.length > this.framesMax || !this.writable)) await this.change();
    if (this.end?.error !== undefined) throw this.end.error;
  }

  /** Ends the sending and waits for all answers. Throws the error that ended the stream, if not all messages have an answer. */
  async finish(): Promise<void> {
    if (!this.finishing && this.end === undefined) this.stream.halfClose();
    this.finishing = true;
    this.watch();
    while (this.end === undefined) await this.change();
    if (this.end.error !== undefined) throw this.end.error;
  }

  /** Breaks the stream, so that `send` and `finish` throw. */
  cancel(): void {
    this.breakOff(new DuetimeError('CANCELLED', 'the stream was cancelled'));
  }

  /** Removes and returns the messages without a result, in order. Ends the stream if it is open. */
  async takeUnanswered(): Promise<NewMessage[]> {
    this.cancel();
    while (this.end === undefined) await this.change();
    return this.frames.splice(0).flat();
  }

  private take({ first, results }: ScheduleStreamResponse): void {
    if (this.broken !== undefined) return;
    const frame = this.frames[0];
    if (frame === undefined || first !== BigInt(this.answeredCount) || frame.length !== results.length) {
      this.breakOff(new DuetimeError('INTERNAL', 'the server answered a frame that was not the next one'));
      return;
    }
    for (const [index, result] of results.entries()) {
      this.connection.log.guard('onResult', () => this.onResult(Number(first) + index, responseOf(result)));
    }
    this.frames.shift();
    this.answeredCount += frame.length;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.watch();
    this.wake();
  }

  // Breaks the stream if frames wait and no answer comes.
  private watch(): void {
    if (this.timer !== undefined || this.end !== undefined || (this.frames.length === 0 && !this.finishing)) return;
    this.timer = setTimeout(
      () => this.breakOff(new DuetimeError('DEADLINE_EXCEEDED', 'the server did not answer a frame in time')),
      Math.min(Math.max(this.answerTimeout, 1), 0x7fffffff));
  }

  private breakOff(error: DuetimeError): void {
    if (this.end !== undefined || this.broken !== undefined) return;
    this.broken = error;
    this.stream.cancel();
  }

  private onEnd(error: DuetimeError | undefined): void {
    if (this.end !== undefined) return;
    clearTimeout(this.timer);
    let reason = this.broken ?? error;
    if (reason === undefined && (this.frames.length > 0 || !this.finishing)) {
      reason = new DuetimeError('INTERNAL', 'the server ended the stream before it had answered all of it');
    }
    this.end = { error: reason };
    this.wake();
  }

  private change(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  private wake(): void {
    for (const resolve of this.waiting.splice(0)) resolve();
  }
}
