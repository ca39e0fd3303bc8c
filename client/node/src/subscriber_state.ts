// SPDX-License-Identifier: Apache-2.0
//
// SubscriberState: the deliveries that wait for handlers, the settlements that wait for the connection, and the counts of a subscriber.
// Internal to the library.

import type { Input } from './input';
import { LeaseKeeper } from './lease_keeper';
import { fittingReason, type Settlement } from './settlement';
import type { Delivery, SubscribeRequest, SubscribeResponse } from './types';

/**
 * Counts since the start. Each delivery ends in one of acked, nacked, deadLettered, released, left, refused, lost or skipped.
 */
export interface SubscriberCounts {
  /** Deliveries that the handler settled. */
  delivered: number;
  /** Settlements that the server confirmed. */
  acked: number;
  nacked: number;
  deadLettered: number;
  released: number;
  /** The handler returned `leave`. */
  left: number;
  /** Settlements that the server refused: too late, or invalid. */
  refused: number;
  /** Settlements without confirmation when the stream ended. The message may come again. */
  lost: number;
  /**
   * Deliveries that the handler did not get, because the stream ended or `stop` was called. The messages come again. `stop` releases
   * them, so that this is no failed attempt.
   */
  skipped: number;
  /** Streams that the server opened. */
  streams: number;
  /** Requests with settlements. Under load far fewer than settlements. */
  settleRequests: number;
  /** Leases that the server extended. */
  extended: number;
  /** Leases that had ended before their extension, so that another subscriber may have the message. */
  leasesLost: number;
}

/** A delivery, and the number of its stream. */
export interface Work {
  delivery: Delivery;
  stream: number;
}

interface Outgoing {
  ack: string[];
  nack: { leaseToken: string; delay: number | undefined; reason: string }[];
  release: { leaseToken: string; delay: number | undefined }[];
  deadLetter: { leaseToken: string; reason: string }[];
}

/**
 * It makes no calls and has no clock: the caller passes the time in milliseconds, and looks for work and requests after each change.
 *
 * Invariants: (1) each queued delivery belongs to the open stream; (2) unconfirmed settlements are in `outgoing`, or were sent on the
 * open stream and are not answered yet; (3) the lease of a settled delivery is not extended, so no request holds a token twice.
 */
export class SubscriberState {
  readonly counts: SubscriberCounts = {
    delivered: 0, acked: 0, nacked: 0, deadLettered: 0, released: 0, left: 0, refused: 0, lost: 0, skipped: 0, streams: 0,
    settleRequests: 0, extended: 0, leasesLost: 0,
  };
  /** Handlers that run. */
  running = 0;
  stopping = false;

  private readonly leases: LeaseKeeper;
  private stream = 0;
  private open = false;
  private draining = false;
  private queue: Delivery[] = [];
  // The deliveries of the queue before this one are taken.
  private queueBegin = 0;
  private outgoing: Outgoing = { ack: [], nack: [], release: [], deadLetter: [] };
  private noMoreDeliveries = false;
  // The most settlements and extensions in one request: the stream's credit. The server ends a stream that exceeds a limit, and no
  // credit is greater than this limit. Unsettled deliveries may be more than the credit, because leases that end return credit.
  private requestMax = Infinity;
  // The settlements that the server has not answered, by lease token.
  private readonly unconfirmed = new Map<string, Settlement['kind']>();
  // The releases of skipped deliveries that the server has not answered.
  private readonly released = new Set<string>();
  private lostBeforeStop = 0;

  /** `onLeaseLost` gets the tokens of leases that ended before they were extended. */
  constructor(private readonly handlers: number, extendMax: number, private readonly onLeaseLost: (token: string) => void) {
    this.leases = new LeaseKeeper(extendMax);
  }

  /** Call before a new stream is opened. */
  beginStream(): void {
    ++this.stream;
    this.open = true;
    this.draining = false;
    this.requestMax = Infinity;
  }

  /** The stream has ended: drops its deliveries and settlements. */
  endStream(): void {
    this.open = false;
    this.clearQueue();
    this.leases.clear();
    this.outgoing = { ack: [], nack: [], release: [], deadLetter: [] };
    this.noMoreDeliveries = false;
    this.counts.lost += this.unconfirmed.size;
    this.unconfirmed.clear();
    this.released.clear();
  }

  onResponse(response: SubscribeResponse, now: number): void {
    const { started, deliveries, settled, refused, extended, drain } = response;
    if (started !== undefined) {
      ++this.counts.streams;
      this.leases.start(started.leaseDuration ?? 0);
      if (started.maxOutstandingMessages > 0) this.requestMax = started.maxOutstandingMessages;
    }
    for (const token of extended) this.leases.onExtended(token);
    this.counts.extended += extended.length;
    for (const token of settled) this.onSettled(token);
    for (const { leaseToken } of refused) this.onRefused(leaseToken);
    if (drain !== undefined) this.draining = true;
    for (const delivery of deliveries) {
      if (this.stopping) {
        this.skip(delivery);
      } else {
        this.leases.add(delivery.leaseToken, now);
        this.queue.push(delivery);
      }
    }
  }

  /** The next delivery for a handler, if there is one and a handler is free. `settle` must follow. */
  takeWork(): Work | undefined {
    if (this.running >= this.handlers || this.stopping) return undefined;
    const delivery = this.queue[this.queueBegin];
    if (delivery === undefined) return undefined;
    if (++this.queueBegin >= this.queue.length) [this.queue, this.queueBegin] = [[], 0];
    ++this.running;
    return { delivery, stream: this.stream };
  }

  settle({ delivery, stream }: Work, settlement: Settlement): void {
    const token = delivery.leaseToken;
    --this.running;
    ++this.counts.delivered;
    const current = this.open && stream === this.stream;
    if (current) this.leases.remove(token);
    if (settlement.kind === 'leave') {
      ++this.counts.left;
    } else if (!current) {
      ++this.counts.lost;
    } else {
      this.unconfirmed.set(token, settlement.kind);
      this.addOutgoing(token, settlement);
    }
  }

  /** The next request to send: settlements, and leases to extend. Absent: there is nothing to send. */
  takeRequest(now: number): Input<SubscribeRequest> | undefined {
    if (!this.open) return undefined;
    let room = this.requestMax;
    const take = <Item>(items: Item[]): Item[] => {
      const taken = items.splice(0, room);
      room -= taken.length;
      return taken;
    };
    const { ack, nack, release, deadLetter } = this.outgoing;
    const request = { ack: take(ack), nack: take(nack), release: take(release), deadLetter: take(deadLetter) };
    const settles = request.ack.length + request.nack.length + request.release.length + request.deadLetter.length > 0;
    if (settles) ++this.counts.settleRequests;
    const extend = this.leases.collect(now, room);
    const { noMoreDeliveries } = this;
    this.noMoreDeliveries = false;
    return settles || extend.length > 0 || noMoreDeliveries ? { ...request, extend, noMoreDeliveries } : undefined;
  }

  /** True if the server drains and nothing is left to settle: the stream should end, so that the server need not wait. */
  get drained(): boolean {
    return this.draining && this.queue.length === 0 && this.running === 0 && this.unconfirmed.size === 0;
  }

  /** When to call `takeRequest` at the latest. */
  nextExtension(): number | undefined {
    return this.open ? this.leases.nextCollect() : undefined;
  }

  /** Hands out no more work, and releases the deliveries that no handler has. */
  requestStop(): void {
    if (this.stopping) return;
    this.stopping = true;
    this.lostBeforeStop = this.counts.lost;
    // Sent with the releases, so that the server does not deliver the same messages here again.
    this.noMoreDeliveries = this.open;
    this.clearQueue();
  }

  /** True if there is no settlement to wait for. */
  get answered(): boolean {
    return !this.open || (this.unconfirmed.size === 0 && this.released.size === 0);
  }

  /** True if the server confirmed all settlements since `requestStop`, so that none was lost. */
  get clean(): boolean {
    return (!this.open || this.unconfirmed.size === 0) && this.counts.lost === this.lostBeforeStop;
  }

  private onSettled(token: string): void {
    if (this.released.delete(token)) return;
    const kind = this.unconfirmed.get(token);
    if (!this.unconfirmed.delete(token)) return;
    if (kind === 'ack') ++this.counts.acked;
    if (kind === 'nack') ++this.counts.nacked;
    if (kind === 'release') ++this.counts.released;
    if (kind === 'deadLetter') ++this.counts.deadLettered;
  }

  // A token may have been sent first in an extension and then in a settlement. The server answers the two in that order.
  private onRefused(token: string): void {
    if (this.leases.onRefused(token)) {
      ++this.counts.leasesLost;
      this.onLeaseLost(token);
    } else if (!this.released.delete(token) && this.unconfirmed.delete(token)) {
      ++this.counts.refused;
    }
  }

  private addOutgoing(leaseToken: string, settlement: Settlement): void {
    switch (settlement.kind) {
      case 'ack':
        this.outgoing.ack.push(leaseToken);
        break;
      case 'nack':
        this.outgoing.nack.push({ leaseToken, delay: settlement.delay, reason: fittingReason(settlement.reason ?? '') });
        break;
      case 'deadLetter':
        this.outgoing.deadLetter.push({ leaseToken, reason: fittingReason(settlement.reason ?? '') });
        break;
      case 'release':
        this.outgoing.release.push({ leaseToken, delay: settlement.delay });
        break;
      case 'leave':
        break;
    }
  }

  // Drops a delivery that got no handler. Releases it if the subscriber stops and the stream is open.
  private skip({ leaseToken }: Delivery): void {
    ++this.counts.skipped;
    this.leases.remove(leaseToken);
    if (!this.stopping || !this.open) return;
    this.released.add(leaseToken);
    this.outgoing.release.push({ leaseToken, delay: undefined });
  }

  private clearQueue(): void {
    for (const delivery of this.queue.splice(this.queueBegin)) this.skip(delivery);
    [this.queue, this.queueBegin] = [[], 0];
  }
}
