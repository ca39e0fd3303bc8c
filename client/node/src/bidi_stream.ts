// SPDX-License-Identifier: Apache-2.0
//
// BidiStream: one bidirectional call. Internal to the library.

import { type Client as GrpcClient, type ClientDuplexStream, Metadata, type ServiceError } from '@grpc/grpc-js';

import { rpcOf } from './codec';
import { type DuetimeError, encodeRequest, errorOfCall } from './errors';
import type { Calls } from './types';

export interface BidiStreamEvents<Response> {
  onMessage(message: Response): void;
  /** The connection takes more bytes, after `write` returned false. */
  onDrain(): void;
  /** Comes once, after the last message. Without an error the server ended the stream with OK. */
  onEnd(error: DuetimeError | undefined): void;
}

export class BidiStream<Name extends 'ScheduleStream' | 'Subscribe'> {
  private readonly call: ClientDuplexStream<Buffer, Calls[Name]['response']>;
  private error: DuetimeError | undefined;

  constructor(channel: GrpcClient, private readonly name: Name, events: BidiStreamEvents<Calls[Name]['response']>) {
    const { path, response } = rpcOf(name);
    this.call = channel.makeBidiStreamRequest(path, (bytes: Buffer) => bytes, (bytes) => response.decode(bytes), new Metadata());
    this.call.on('data', (message: Calls[Name]['response']) => events.onMessage(message));
    this.call.on('drain', () => events.onDrain());
    // An error may overtake messages that are not handed over yet. The end does not.
    this.call.on('error', (error: ServiceError) => {
      this.error = errorOfCall(error);
    });
    this.call.on('end', () => events.onEnd(this.error));
  }

  /** Makes the bytes of a message for `write`. Throws INVALID_ARGUMENT if the message has a wrong type. */
  encode(message: object): Buffer {
    return encodeRequest(rpcOf(this.name).request, message);
  }

  /** Returns false if the caller should wait for `onDrain`. */
  write(bytes: Buffer): boolean {
    return this.call.write(bytes);
  }

  /** Sends no more. */
  halfClose(): void {
    this.call.end();
  }

  /** Ends the call with CANCELLED, if it has not ended. */
  cancel(): void {
    this.call.cancel();
  }
}
