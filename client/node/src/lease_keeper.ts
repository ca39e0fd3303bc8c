// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: decides when to extend the leases of unsettled deliveries. Internal to the library.

import type { ExtendLease } from './types';

interface Lease {
  received: number;
  extendAt: number;
}

/**
 * Extends a lease whenever a third of it has passed, so that a lost request or a slow server does not end it. This stops when the
 * delivery is settled, its lease is lost, or `keepMax` milliseconds have passed since it arrived. It has no clock and no timer: the
 * caller passes the time.
 */
export class LeaseKeeper {
  private duration = 0;
  // 0: no lease of this stream is extended.
  private interval = 0;
  // The leases to extend, by their tokens. Ordered by extendAt, because each lease is added with the same distance from now.
  private readonly leases = new Map<string, Lease>();
  // Leases whose extension is requested and not answered.
  private readonly asked = new Set<string>();

  constructor(private readonly keepMax: number) {}

  /** The server opened a stream with leases of this length. */
  start(duration: number): void {
    this.duration = duration;
    this.interval = duration / 3 < this.keepMax ? duration / 3 : 0;
  }

  /** The stream and its leases have ended. */
  clear(): void {
    this.leases.clear();
    this.asked.clear();
    this.interval = 0;
  }

  add(token: string, now: number): void {
    if (this.interval > 0) this.append(token, now, now + this.interval);
  }

  /** The delivery is settled, or no handler will get it. Idempotent. */
  remove(token: string): void {
    this.leases.delete(token);
  }

  /** Returns the leases to extend now, and those that are due soon after, but at most `room`. The others stay due. */
  collect(now: number, room: number): ExtendLease[] {
    // A little ahead, so that deliveries that arrived close together share a request.
    const until = now + this.interval / 4;
    const extensions: ExtendLease[] = [];
    // The loop ends, because each lease moves to the end with a later time.
    for (const [token, lease] of this.leases) {
      if (lease.extendAt > until || extensions.length >= room) break;
      this.leases.delete(token);
      this.append(token, lease.received, now + this.interval);
      this.asked.add(token);
      extensions.push({ leaseToken: token, duration: this.duration });
    }
    return extensions;
  }

  /** When to call `collect` next. Absent: no lease waits for it. */
  nextCollect(): number | undefined {
    for (const { extendAt } of this.leases.values()) return extendAt;
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

  private append(token: string, received: number, extendAt: number): void {
    if (extendAt < received + this.keepMax) this.leases.set(token, { received, extendAt });
  }
}
