// SPDX-License-Identifier: Apache-2.0
//
// BidiStream: one bidirectional call. Internal to the library.

import { type Client as GrpcClient, type ClientDuplexStream, Metadata, type ServiceError } from '@grpc/grpc-js';

import { rpcOf } from './codec';
import type { Connection } from './connection';
import { DuetimeError, encodeRequest } from './errors';
import type { Calls } from './types';

export interface BidiStreamEvents<Response> {
  onMessage(message: Response): void;
  /** The connection takes more bytes, after `write` returned false. */
  onDrain(): void;
  /** Comes once, after the last message. Without an error the server ended the stream with OK. */
  onEnd(error: DuetimeError | undefined): void;
}

export class BidiStream<Name extends 'ScheduleStream' | 'Subscribe' | 'CallStream'> {
  // undefined until a member of the cell leads. A single server has its call at once.
  private call: ClientDuplexStream<Buffer, Calls[Name]['response']> | undefined;
  private error: DuetimeError | undefined;
  private readonly unsent: Buffer[] = [];
  private halfClosed = false;
  private readonly cancelled = new AbortController();

  constructor(
    private readonly connection: Connection,
    private readonly name: Name,
    private readonly events: BidiStreamEvents<Calls[Name]['response']>,
  ) {
    const { channel } = connection;
    if (channel !== undefined) this.open(channel);
    else connection.find(Infinity, this.cancelled.signal).then((leader) => this.open(leader), (error) => events.onEnd(error));
  }

  private open(channel: GrpcClient): void {
    const { connection, events } = this;
    const { path, response } = rpcOf(this.name);
    const call = channel.makeBidiStreamRequest(path, (bytes: Buffer) => bytes, (bytes) => response.decode(bytes), new Metadata());
    this.call = call;
    call.on('data', (message: Calls[Name]['response']) => events.onMessage(message));
    call.on('drain', () => events.onDrain());
    // An error may overtake messages that are not handed over yet. The end does not.
    call.on('error', (error: ServiceError) => {
      this.error = connection.errorOf(error);
      connection.onError(this.error);
    });
    call.on('end', () => events.onEnd(this.error));
    const taken = this.unsent.splice(0).map((bytes) => call.write(bytes));
    if (this.halfClosed) call.end();
    if (this.cancelled.signal.aborted) call.cancel();
    if (taken.length > 0 && taken.every(Boolean)) events.onDrain();
  }

  /** Makes the bytes of a message for `write`. Throws INVALID_ARGUMENT if the message has a wrong type. */
  encode(message: object): Buffer {
    return encodeRequest(rpcOf(this.name).request, message);
  }

  /** Returns false if the caller should wait for `onDrain`. */
  write(bytes: Buffer): boolean {
    if (this.call !== undefined) return this.call.write(bytes);
    this.unsent.push(bytes);
    return false;
  }

  /** Sends no more. */
  halfClose(): void {
    this.halfClosed = true;
    this.call?.end();
  }

  /** Ends the call with CANCELLED, if it has not ended. */
  cancel(): void {
    this.cancelled.abort(new DuetimeError('CANCELLED', 'the stream was cancelled'));
    this.call?.cancel();
  }
}
