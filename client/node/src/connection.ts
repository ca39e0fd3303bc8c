// SPDX-License-Identifier: Apache-2.0
//
// Finds the server of a call: the only one, or the leader of a cell. gRPC for Node.js has no health checks of its own. Internal to
// the library.

import { setTimeout as sleep } from 'node:timers/promises';

import { type Client as GrpcClient, connectivityState, Metadata, type ServiceError } from '@grpc/grpc-js';

import { DEFAULT_SERVER, openChannel, type ServerOptions } from './channel';
import { textOfConnectionError } from './connection_error';
import { DuetimeError, errorOfCall } from './errors';
import { Log, textOf } from './log';

// grpc.health.v1: a HealthCheckRequest for the service duetime.v1.Messages, and the HealthCheckResponse SERVING.
const HEALTH_REQUEST = Buffer.from('\x0a\x13duetime.v1.Messages');
const SERVING = Buffer.from([0x08, 0x01]);
// A member that hangs delays a search by no more than this.
const HEALTH_TIMEOUT = 1_000;

/** How long a call waits after NOT_LEADER, and between two searches for the leader. */
export const LEADER_PAUSE = 50;

function checkServing(member: GrpcClient): Promise<GrpcClient> {
  return new Promise((resolve, reject) => {
    const bytesAsTheyAre = (bytes: Buffer): Buffer => bytes;
    member.makeUnaryRequest(
      '/grpc.health.v1.Health/Check', bytesAsTheyAre, bytesAsTheyAre, HEALTH_REQUEST, new Metadata(),
      { deadline: Date.now() + HEALTH_TIMEOUT }, (error, answer) => {
        if (error === null && answer!.equals(SERVING)) resolve(member);
        else reject(error ?? new Error('standby'));
      });
  });
}

/** A channel to each server. */
export class Connection {
  readonly log: Log;
  readonly address: string;
  /** Why the last search found no leader. */
  failure: string | undefined;
  private readonly addresses: string[];
  private readonly members: GrpcClient[];
  // The only server, or the member whose health was SERVING in the last search.
  private leader: GrpcClient | undefined;
  private search: Promise<void> | undefined;
  private closed = false;
  private readonly usesTls: boolean;

  constructor(options: ServerOptions) {
    this.log = new Log(options.logger);
    this.address = options.server ?? DEFAULT_SERVER;
    this.usesTls = options.tls !== undefined;
    const servers = options.server?.split(',').map((server) => server.trim()) ?? [];
    this.addresses = servers;
    if (servers.length < 2) {
      this.members = [openChannel(options)];
      this.leader = this.members[0];
      return;
    }
    if (!servers.every((server) => /.:\d+$/.test(server))) {
      throw new DuetimeError('INVALID_ARGUMENT', 'each address of several must be host:port');
    }
    // Find a member whose machine vanished sooner, because another one takes over.
    const keepalive = { 'grpc.keepalive_time_ms': 15_000, 'grpc.keepalive_timeout_ms': 3_000 };
    this.members = servers.map((server) => openChannel({ ...options, server }, keepalive));
  }

  /** The channel to the only server, or to the leader. undefined if the leader is not known: then `find` it. */
  get channel(): GrpcClient | undefined {
    if (this.closed) throw new DuetimeError('CANCELLED', 'the client was closed');
    if (this.members.length === 1) return this.leader;
    const connected = this.leader?.getChannel().getConnectivityState(false) === connectivityState.READY;
    return connected ? this.leader : undefined;
  }

  /** Waits until a member leads, for at most `timeout` milliseconds. */
  async find(timeout: number, signal?: AbortSignal): Promise<GrpcClient> {
    const end = performance.now() + timeout;
    for (;;) {
      if (this.closed) throw new DuetimeError('CANCELLED', 'the client was closed');
      // Calls that wait at once share a search.
      this.search ??= this.look();
      const left = Math.min(Math.max(end - performance.now(), 0), HEALTH_TIMEOUT);
      await Promise.race([this.search, sleep(left, undefined, { signal, ref: false })]).catch(() => signal?.throwIfAborted());
      const { channel } = this;
      if (channel !== undefined) return channel;
      if (performance.now() >= end) {
        throw new DuetimeError('DEADLINE_EXCEEDED', `the deadline has passed: ${this.failure ?? 'no member of the cell has answered'}`);
      }
      await sleep(LEADER_PAUSE, undefined, { signal }).catch(() => signal?.throwIfAborted());
    }
  }

  /** Makes the error of a call from that of gRPC. */
  errorOf(error: ServiceError): DuetimeError {
    return errorOfCall(error, textOfConnectionError(error.details, this.address, this.usesTls));
  }

  /** Takes note of the error of a call. The next call finds the leader anew if this one may lead no more. */
  onError({ code }: DuetimeError): void {
    if (this.members.length > 1 && (code === 'UNAVAILABLE' || code === 'DEADLINE_EXCEEDED')) this.leader = undefined;
  }

  /** Returns true if another member leads. The call changed nothing, so any call may be made again. */
  refusedByStandby(error: DuetimeError | undefined): boolean {
    return this.members.length > 1 && error?.reason === 'NOT_LEADER';
  }

  close(): void {
    this.closed = true;
    for (const member of this.members) member.close();
  }

  private async look(): Promise<void> {
    try {
      this.leader = await Promise.any(this.members.map(checkServing));
      this.failure = undefined;
    } catch (error) {
      this.leader = undefined;
      const causes = (error as AggregateError).errors.map(
        (cause, index) => textOfConnectionError(textOf(cause), this.addresses[index]!, this.usesTls));
      this.failure = `no member leads: ${causes.join('; ')}`;
    }
    this.search = undefined;
  }
}
