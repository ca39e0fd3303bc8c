// SPDX-License-Identifier: Apache-2.0
//
// SubscriberState: the deliveries that wait for handlers, the settlements that wait for the connection, and the counts of a subscriber.
// Internal to the library.

import type { Input } from './input';
import { LeaseKeeper } from './lease_keeper';
import { messageOf, type Settlement } from './settlement';
import type { Delivery, SubscribeRequest, SubscribeResponse, Settlement as SettlementMessage } from './types';

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
   * Deliveries that the handler did not get: the stream or the lease ended, `stop` was called, or no handler was free within
   * `extendMax`. The messages come again. This is no failed attempt, because the handler had not begun.
   */
  skipped: number;
  /** Streams that the server opened. */
  streams: number;
  /** Requests with settlements. Under load far fewer than settlements. */
  settleRequests: number;
  /** Leases that the server extended. */
  extended: number;
  /** Leases that ended while the delivery waited or its handler ran, so that another subscriber may have the message. */
  leasesLost: number;
}

/** What one call of a handler gets: at least one delivery, all of them from the stream with this number. */
export interface Work {
  deliveries: Delivery[];
  stream: number;
}

// How long a handler runs before it is reported, with a request that is sent anyway, and with a request of its own. Fast handlers
// need no report.
const REPORT_ANYWAY = 10;
const REPORT_ALONE = 100;

/**
 * It makes no calls and has no clock: the caller passes the time in milliseconds, and looks for work and requests after each change.
 *
 * Invariants: (1) each queued delivery belongs to the open stream; (2) unconfirmed settlements are in `settlements`, or were sent on the
 * open stream and are not answered yet; (3) a settled delivery is not reported as begun, and its lease is not extended.
 */
export class SubscriberState {
  readonly counts: SubscriberCounts = {
    delivered: 0, acked: 0, nacked: 0, deadLettered: 0, released: 0, left: 0, refused: 0, lost: 0, skipped: 0, streams: 0,
    settleRequests: 0, extended: 0, leasesLost: 0,
  };
  /** Calls of handlers that run, or wait for the server to confirm that they begin. */
  running = 0;
  stopping = false;

  private readonly leases: LeaseKeeper;
  private stream = 0;
  private open = false;
  private draining = false;
  private queue: Delivery[] = [];
  // The deliveries of the queue before this one are taken.
  private queueBegin = 0;
  // What to send: settlements without extensions, and reports of handlers that have begun. A token is at most once in each of them.
  private settlements: Input<SettlementMessage>[] = [];
  private begun: string[] = [];
  private noMoreDeliveries = false;
  // Running handlers that are not reported, in the order of their begin: the time of the begin, by lease token.
  private readonly unreported = new Map<string, number>();
  // Reports that the server has not answered, by lease token. 'refused': the lease is known to be lost.
  private readonly reported = new Map<string, 'sent' | 'refused'>();
  // False: the server is older, and answers no report.
  private reports = true;
  // Deliveries that have a handler, which is not called before the server confirms the report.
  private readonly confirming = new Map<string, Work>();
  private confirmed: Work[] = [];
  // The most settlements and reports in one request: the stream's credit. The server ends a stream that exceeds a limit, and no
  // credit is greater than this limit. Unsettled deliveries may be more than the credit, because leases that end return credit.
  private requestMax = Infinity;
  // The settlements that the server has not answered, by lease token.
  private readonly unconfirmed = new Map<string, Settlement['kind']>();
  // The releases of skipped deliveries that the server has not answered.
  private readonly released = new Set<string>();
  private lostBeforeStop = 0;

  /**
   * `handlers` calls may run at once, and get at most `batchMax` deliveries each. `onLeaseLost` gets the tokens of leases that ended
   * while a handler ran.
   */
  constructor(private readonly handlers: number, extendMax: number, private readonly onLeaseLost: (token: string) => void,
    private readonly batchMax = 1) {
    this.leases = new LeaseKeeper(extendMax);
  }

  /** Call before a new stream is opened. */
  beginStream(): void {
    ++this.stream;
    this.open = true;
    this.draining = false;
    this.reports = true;
    this.requestMax = Infinity;
  }

  /** The stream has ended: drops its deliveries and settlements. */
  endStream(): void {
    this.open = false;
    this.clearQueue();
    this.leases.clear();
    this.settlements = [];
    this.begun = [];
    this.unreported.clear();
    this.reported.clear();
    this.noMoreDeliveries = false;
    this.counts.lost += this.unconfirmed.size;
    this.unconfirmed.clear();
    this.released.clear();
  }

  onResponse(response: SubscribeResponse, now: number): void {
    const { started, deliveries, settled, refused, extended, begun, drain } = response;
    if (started !== undefined) {
      ++this.counts.streams;
      this.leases.start(started.leaseDuration ?? 0);
      if (started.maxOutstandingMessages > 0) this.requestMax = started.maxOutstandingMessages;
    }
    for (const token of extended) this.leases.onExtended(token);
    this.counts.extended += extended.length;
    for (const token of begun) this.onBegun(token);
    for (const token of settled) this.onSettled(token);
    const lost = new Set<string>();
    for (const { leaseToken } of refused) {
      if (this.onRefused(leaseToken)) lost.add(leaseToken);
    }
    this.dropQueued(lost, () => ++this.counts.skipped);
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

  /** The next deliveries for a handler, if there are any and a handler is free. `settle` must follow. */
  takeWork(now: number): Work | undefined {
    const confirmed = this.confirmed.shift();
    if (confirmed !== undefined) {
      this.leases.begin(confirmed.deliveries[0]!.leaseToken, now);
      return confirmed;
    }
    const deliveries: Delivery[] = [];
    while (this.running < this.handlers && !this.stopping && deliveries.length < this.batchMax) {
      const delivery = this.queue[this.queueBegin];
      // A delivery to confirm gets a call of its own.
      if (delivery === undefined || (delivery.confirmBegun && deliveries.length > 0)) break;
      if (++this.queueBegin >= this.queue.length) [this.queue, this.queueBegin] = [[], 0];
      const token = delivery.leaseToken;
      if (this.leases.hasEnded(token, now)) {
        ++this.counts.leasesLost;
        this.skip(delivery);
        continue;
      }
      this.leases.begin(token, now);
      if (delivery.confirmBegun) {
        ++this.running;
        this.confirming.set(token, { deliveries: [delivery], stream: this.stream });
        this.begun.push(token);
      } else {
        if (this.reports) this.unreported.set(token, now);
        deliveries.push(delivery);
      }
    }
    if (deliveries.length === 0) return undefined;
    ++this.running;
    return { deliveries, stream: this.stream };
  }

  /** The handler returned. There is one settlement for each delivery, or one for all. */
  settle({ deliveries, stream }: Work, settlements: Settlement | readonly Settlement[]): void {
    --this.running;
    for (const [index, { leaseToken }] of deliveries.entries()) {
      this.settleOne(leaseToken, stream, Array.isArray(settlements) ? settlements[index] : settlements);
    }
  }

  private settleOne(token: string, stream: number, settlement: Settlement): void {
    ++this.counts.delivered;
    const current = this.open && stream === this.stream;
    if (current) {
      this.leases.remove(token);
      // Without a report, the server would take a delivery that is left for one that has perhaps ended its process.
      if (this.unreported.delete(token) && settlement.kind === 'leave') this.begun.push(token);
    }
    if (settlement.kind === 'leave') {
      ++this.counts.left;
    } else if (!current) {
      ++this.counts.lost;
    } else {
      this.unconfirmed.set(token, settlement.kind);
      this.settlements.push(messageOf(token, settlement));
    }
  }

  /** The next request to send: settlements and reports. Absent: there is nothing to send. */
  takeRequest(now: number): Input<SubscribeRequest> | undefined {
    if (!this.open) return undefined;
    const { extensions, overdue } = this.leases.collect(now, this.requestMax);
    this.dropQueued(new Set(overdue), (delivery) => this.giveBack(delivery));
    const settled = this.settlements.splice(0, this.requestMax - extensions.length);
    if (settled.length > 0) ++this.counts.settleRequests;
    // No lease is in both lists, because a lease that is settled is not extended.
    const settlements = extensions.concat(settled);
    const room = this.requestMax - settlements.length;
    const { noMoreDeliveries } = this;
    this.noMoreDeliveries = false;
    const anyway = settlements.length > 0 || noMoreDeliveries || this.begun.length > 0;
    this.addReports(now, anyway, room);
    const begun = this.begun.splice(0, room);
    for (const token of begun) this.reported.set(token, 'sent');
    return anyway || begun.length > 0 ? { settlements, begun, noMoreDeliveries } : undefined;
  }

  /** True if the server drains and nothing is left to settle or to send: the stream should end, so that the server need not wait. */
  get drained(): boolean {
    const unsent = this.settlements.length + this.begun.length > 0;
    return this.draining && this.queue.length === 0 && this.running === 0 && this.unconfirmed.size === 0 && !unsent;
  }

  /** When to call `takeRequest` at the latest. */
  nextRequest(): number | undefined {
    if (!this.open) return undefined;
    const next = this.leases.nextCollect();
    for (const begun of this.unreported.values()) return Math.min(begun + REPORT_ALONE, next ?? Infinity);
    return next;
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

  private onBegun(token: string): void {
    this.reported.delete(token);
    const work = this.confirming.get(token);
    if (work === undefined) return;
    this.confirming.delete(token);
    this.confirmed.push(work);
  }

  private onSettled(token: string): void {
    // The server answers a report before the settlement.
    if (this.reported.has(token)) {
      this.reports = false;
      this.unreported.clear();
      this.reported.clear();
      this.begun = [];
    }
    if (this.released.delete(token)) return;
    const kind = this.unconfirmed.get(token);
    if (!this.unconfirmed.delete(token)) return;
    if (kind === 'ack') ++this.counts.acked;
    if (kind === 'nack') ++this.counts.nacked;
    if (kind === 'release') ++this.counts.released;
    if (kind === 'deadLetter') ++this.counts.deadLettered;
  }

  // A token may have been sent in a report, in an extension, and then in a settlement. The server answers the settlement last.
  // Returns true if the lease is lost although it is not settled.
  private onRefused(token: string): boolean {
    const report = this.reported.get(token);
    if (this.leases.onRefused(token)) {
      // The server refuses the report, too.
      if (report !== undefined) this.reported.set(token, 'refused');
    } else if (report !== undefined) {
      this.reported.delete(token);
      if (report === 'refused') return false;
    } else {
      if (!this.released.delete(token) && this.unconfirmed.delete(token)) ++this.counts.refused;
      return false;
    }
    ++this.counts.leasesLost;
    this.leases.remove(token);
    this.unreported.delete(token);
    if (this.confirming.delete(token)) {
      --this.running;
      ++this.counts.skipped;
    }
    this.onLeaseLost(token);
    return true;
  }

  // Adds reports to those to send, if a request is sent anyway, or if a report has waited for long.
  private addReports(now: number, anyway: boolean, room: number): void {
    for (const [token, begun] of this.unreported) {
      if (begun + (anyway ? REPORT_ANYWAY : REPORT_ALONE) > now || this.begun.length >= room) return;
      anyway = true;
      this.unreported.delete(token);
      this.begun.push(token);
    }
  }

  // Drops a delivery that got no handler. Releases it if the subscriber stops and the stream is open.
  private skip(delivery: Delivery): void {
    if (this.stopping && this.open) {
      this.giveBack(delivery);
    } else {
      ++this.counts.skipped;
      this.leases.remove(delivery.leaseToken);
    }
  }

  private giveBack({ leaseToken }: Delivery): void {
    ++this.counts.skipped;
    this.leases.remove(leaseToken);
    this.released.add(leaseToken);
    this.settlements.push(messageOf(leaseToken, { kind: 'release' }));
  }

  // Removes the waiting deliveries with these tokens.
  private dropQueued(tokens: Set<string>, drop: (delivery: Delivery) => void): void {
    if (tokens.size === 0) return;
    const queue = this.queue.slice(this.queueBegin);
    [this.queue, this.queueBegin] = [queue.filter(({ leaseToken }) => !tokens.has(leaseToken)), 0];
    for (const delivery of queue) {
      if (tokens.has(delivery.leaseToken)) drop(delivery);
    }
  }

  // Drops the deliveries whose handler was not called.
  private clearQueue(): void {
    const waiting = [...this.confirming.values(), ...this.confirmed].map(({ deliveries }) => deliveries[0]!);
    this.running -= waiting.length;
    this.begun = this.begun.filter((token) => !this.confirming.has(token));
    this.confirming.clear();
    this.confirmed = [];
    for (const delivery of waiting.concat(this.queue.splice(this.queueBegin))) this.skip(delivery);
    [this.queue, this.queueBegin] = [[], 0];
  }
}
