// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.SubscribeRequest;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * Decides when to extend the leases of unsettled deliveries: whenever a third of a lease has passed, so that a lost
 * request or a slow server does not end it. This stops when the delivery is settled, its lease is lost, or its handler has
 * run for the longest time. A delivery that waits for a handler is given back instead, before it has waited for the longest
 * time, and after two thirds of its lease if that is not extended.
 *
 * <p>It has no clock, no thread and no lock: the caller passes the time of System.nanoTime. Not thread-safe.
 */
final class LeaseKeeper {
  /**
   * The lease of an unsettled delivery.
   *
   * @param since when the handler began; until then, when the delivery arrived
   * @param checkAt when to extend the lease, or to give the delivery back
   * @param endsAt when the lease ends, unless it is extended
   */
  private record Lease(long since, boolean begun, long checkAt, long endsAt) {}

  private final long keepMax;
  private com.google.protobuf.Duration duration = com.google.protobuf.Duration.getDefaultInstance();
  private long durationNanos;
  // From one check of a lease to the next. 0: the leases of this stream have no known length.
  private long step;
  // How much earlier than due a lease is extended, so that deliveries that arrived close together share a request.
  private long ahead;
  // By token, in the order of checkAt, because every lease is added with the same distance from now.
  private final Map<String, Lease> leases = new LinkedHashMap<>();
  // Tokens whose extension is requested and not answered.
  private final Set<String> asked = new HashSet<>();

  /** {@code keepMax} of zero or less: no lease is extended. */
  LeaseKeeper(Duration keepMax) {
    this.keepMax = Times.nanos(keepMax);
  }

  /** The server opened a stream with leases of this length. */
  void start(com.google.protobuf.Duration lease) {
    duration = lease;
    durationNanos = Times.nanos(Times.fromProto(lease));
    boolean extend = durationNanos / 3 < keepMax;
    step = extend ? durationNanos / 3 : durationNanos / 3 * 2;
    ahead = extend ? durationNanos / 12 : 0;
  }

  /** The stream and its leases have ended. */
  void clear() {
    leases.clear();
    asked.clear();
    step = 0;
  }

  /** A delivery has arrived, and waits for a handler. */
  void add(String token, long now) {
    if (step > 0) leases.put(token, new Lease(now, false, now + step, now + durationNanos));
  }

  /** A handler takes the delivery. */
  void begin(String token, long now) {
    leases.computeIfPresent(token, (key, lease) -> new Lease(now, true, lease.checkAt, lease.endsAt));
  }

  /** The delivery is settled or will not be handled: its lease is no longer extended. */
  void remove(String token) {
    leases.remove(token);
  }

  /** Returns true if the lease of a waiting delivery has ended although the server did not say so. */
  boolean hasEnded(String token, long now) {
    Lease lease = leases.get(token);
    return lease != null && now - lease.endsAt >= 0;
  }

  /**
   * Adds the extensions of the leases that are due now, or soon after, to the request: at most {@code room}. The others
   * stay due. Returns the waiting deliveries to give back now, which are no longer kept.
   */
  Set<String> collect(long now, int room, SubscribeRequest.Builder request) {
    long until = now + ahead;
    Set<String> overdue = new HashSet<>();
    while (room > 0) {
      Iterator<Map.Entry<String, Lease>> first = leases.entrySet().iterator();
      if (!first.hasNext()) break;
      Map.Entry<String, Lease> entry = first.next();
      Lease lease = entry.getValue();
      if (lease.checkAt - until > 0) break;
      String token = entry.getKey();
      first.remove();
      // A waiting delivery needs a lease until the next check.
      long needed = lease.begun ? now : now + durationNanos / 3;
      if (needed - lease.since < keepMax) {
        request.addSettlementsBuilder().setLeaseToken(token).getExtendBuilder().setDuration(duration);
        asked.add(token);
        leases.put(token, new Lease(lease.since, lease.begun, now + step, now + durationNanos));
        room--;
      } else if (!lease.begun) {
        overdue.add(token);
      }
    }
    return overdue;
  }

  /** Returns in how many nanoseconds to collect next; no lease that is added later is due before. */
  long untilCollect(long now) {
    if (step == 0) return Long.MAX_VALUE;
    return leases.isEmpty() ? step : leases.values().iterator().next().checkAt - now;
  }

  /** The server extended the lease. */
  void onExtended(String token) {
    asked.remove(token);
  }

  /** The server refused a request for this lease. Returns true if it refused an extension, which is not requested again. */
  boolean onRefused(String token) {
    if (!asked.remove(token)) return false;
    leases.remove(token);
    return true;
  }
}
