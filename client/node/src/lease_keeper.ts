// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: decides when to extend the leases of unsettled deliveries. Internal to the library.

import type { Input } from './input';
import type { Settlement } from './types';

interface Lease {
  /** When the handler began. Until then, when the delivery arrived. */
  since: number;
  begun: boolean;
  /** When to extend the lease, or to give the delivery back. */
  checkAt: number;
  /** When the lease ends, unless it is extended. */
  endsAt: number;
}

/**
 * Extends a lease whenever a third of it has passed, so that a lost request or a slow server does not end it. This stops when the
 * delivery is settled, its lease is lost, or its handler has run for `keepMax` milliseconds. A delivery that waits for a handler is
 * given back instead, before it has waited for `keepMax`, and after two thirds of its lease if that is not extended. LeaseKeeper has
 * no clock and no timer: the caller passes the time.
 */
export class LeaseKeeper {
  private duration = 0;
  // From one check of a lease to the next. 0: the leases have no known length.
  private step = 0;
  // How much earlier than due a lease is extended, so that deliveries that arrived close together share a request.
  private ahead = 0;
  // The leases to check, by their tokens. Ordered by checkAt, because each lease is added with the same distance from now.
  private readonly leases = new Map<string, Lease>();
  // Leases whose extension is requested and not answered.
  private readonly asked = new Set<string>();

  constructor(private readonly keepMax: number) {}

  /** The server opened a stream with leases of this length. */
  start(duration: number): void {
    this.duration = duration;
    const extend = duration / 3 < this.keepMax;
    this.step = extend ? duration / 3 : 2 * duration / 3;
    this.ahead = extend ? duration / 12 : 0;
  }

  /** The stream and its leases have ended. */
  clear(): void {
    this.leases.clear();
    this.asked.clear();
    this.step = 0;
  }

  /** A delivery has arrived, and waits for a handler. */
  add(token: string, now: number): void {
    if (this.step === 0) return;
    this.leases.set(token, { since: now, begun: false, checkAt: now + this.step, endsAt: now + this.duration });
  }

  /** A handler takes the delivery. */
  begin(token: string, now: number): void {
    const lease = this.leases.get(token);
    if (lease === undefined) return;
    lease.since = now;
    lease.begun = true;
  }

  /** The delivery is settled, or no handler will get it. Idempotent. */
  remove(token: string): void {
    this.leases.delete(token);
  }

  /** True if the lease of a waiting delivery has ended although the server did not say so. */
  hasEnded(token: string, now: number): boolean {
    return now >= (this.leases.get(token)?.endsAt ?? Infinity);
  }

  /**
   * Returns the extensions of the leases that are due now, or soon after, but at most `room`. The others stay due. Also returns the
   * waiting deliveries to give back now, which are no longer kept.
   */
  collect(now: number, room: number): { extensions: Input<Settlement>[]; overdue: string[] } {
    const until = now + this.ahead;
    const extensions: Input<Settlement>[] = [];
    const overdue: string[] = [];
    // The loop ends, because each lease that stays moves to the end with a later time.
    for (const [token, lease] of this.leases) {
      if (lease.checkAt > until || extensions.length >= room) break;
      this.leases.delete(token);
      // A waiting delivery needs a lease until the next check.
      if ((lease.begun ? now : now + this.duration / 3) < lease.since + this.keepMax) {
        this.leases.set(token, { ...lease, checkAt: now + this.step, endsAt: now + this.duration });
        this.asked.add(token);
        extensions.push({ leaseToken: token, extend: { duration: this.duration } });
      } else if (!lease.begun) {
        overdue.push(token);
      }
    }
    return { extensions, overdue };
  }

  /** When to call `collect` next. Absent: no lease waits for it. */
  nextCollect(): number | undefined {
    for (const { checkAt } of this.leases.values()) return checkAt;
    return undefined;
  }

  onExtended(token: string): void {
    this.asked.delete(token);
  }

  /** The server refused a request for this lease. Returns true if it refused an extension, which is then not requested again. */
  onRefused(token: string): boolean {
    if (!this.asked.delete(token)) return false;
    this.leases.delete(token);
    return true;
  }
}
