// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.ExtendLease;
import io.github.duetime.v1.SubscribeRequest;
import java.time.Duration;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * Decides when to extend the leases of unsettled deliveries: whenever a third of a lease has passed, so that a lost
 * request or a slow server does not end it. This stops when the delivery is settled, its lease is lost, or the longest
 * time has passed since it arrived.
 *
 * <p>It has no clock, no thread and no lock: the caller passes the time of System.nanoTime. Not thread-safe.
 */
final class LeaseKeeper {
  /** An unsettled delivery: when it arrived, and when to extend its lease. */
  private record Lease(long received, long extendAt) {}

  private final long keepMax;
  private com.google.protobuf.Duration duration = com.google.protobuf.Duration.getDefaultInstance();
  // 0: no lease of this stream is extended.
  private long interval;
  // By token, in the order of extendAt, because every lease is added with the same distance from now.
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
    interval = Times.nanos(Times.fromProto(lease)) / 3;
    if (interval >= keepMax) interval = 0;
  }

  /** The stream and its leases have ended. */
  void clear() {
    leases.clear();
    asked.clear();
    interval = 0;
  }

  /** Adds the lease of an unsettled delivery that arrived now. */
  void add(String token, long now) {
    if (interval > 0) leases.put(token, new Lease(now, now + interval));
  }

  /** The delivery is settled or will not be handled: its lease is no longer extended. */
  void remove(String token) {
    leases.remove(token);
  }

  /** Adds the leases to extend now, and soon after, to the request: at most {@code room}. The others stay due. */
  void collect(long now, int room, SubscribeRequest.Builder request) {
    // Collects a little ahead, so that deliveries that arrived close together share a request.
    long until = now + interval / 4;
    for (; room > 0; room--) {
      Iterator<Map.Entry<String, Lease>> first = leases.entrySet().iterator();
      if (!first.hasNext()) return;
      Map.Entry<String, Lease> entry = first.next();
      Lease lease = entry.getValue();
      if (lease.extendAt - until > 0) return;
      String token = entry.getKey();
      first.remove();
      request.addExtend(ExtendLease.newBuilder().setLeaseToken(token).setDuration(duration));
      asked.add(token);
      long next = now + interval;
      if (next - lease.received < keepMax) leases.put(token, new Lease(lease.received, next));
    }
  }

  /** Returns in how many nanoseconds to collect next; no lease that is added later is due before. */
  long untilCollect(long now) {
    if (interval == 0) return Long.MAX_VALUE;
    return leases.isEmpty() ? interval : leases.values().iterator().next().extendAt - now;
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
