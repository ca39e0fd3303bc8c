// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.SettleRefusal;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/**
 * What the threads of a subscriber share: deliveries wait here for handlers, and settlements wait here for the connection
 * thread. It makes no network calls and owns no thread.
 *
 * <p>Invariants: (1) every queued delivery belongs to the open stream; (2) an unconfirmed settlement is in
 * {@code outgoing}, or was sent on the open stream and is not answered yet; (3) a settled delivery is not
 * reported as begun, and its lease is not extended. Thread-safe: every method takes the one lock.
 */
final class SubscriberState {
  /** What the connection thread does next. */
  enum Task {
    /** Send the request. */
    WRITE,
    /** Send no more, and read until the end. */
    HALF_CLOSE,
    /** The stream has ended. */
    OVER,
    /** The server was silent for too long. */
    SILENT,
    /** End the stream. */
    CLOSE
  }

  // How long a handler runs before it is reported, with a request that is sent anyway, and with a request of its own. Fast
  // handlers need no report.
  private static final long REPORT_ANYWAY_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
  private static final long REPORT_ALONE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
  // While handlers began within this time, the connection thread looks by itself for handlers to report. Otherwise each of
  // them would have to wake it.
  private static final long BUSY_NANOS = TimeUnit.SECONDS.toNanos(1);

  private final int handlers;
  private final LongSupplier clock;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition workReady = lock.newCondition();
  private final Condition taskReady = lock.newCondition();
  // Signalled by changes that a stop waits for.
  private final Condition changed = lock.newCondition();

  // The lock guards all fields below.
  private long stream;
  private boolean streamOpen;
  private boolean readEnded;
  private boolean draining;
  private boolean halfClosed;
  private long lastFrame;
  private final Deque<Work> queue = new ArrayDeque<>();
  // The leases of queued deliveries and of deliveries that a handler works on.
  private final LeaseKeeper leases;
  // Handlers that run, or wait for the server to confirm that they begin.
  private int busyHandlers;
  // Running handlers that are not reported, in the order of their begin: the time of the begin, by token.
  private final Map<String, Long> unreported = new LinkedHashMap<>();
  // Reports that the server has not answered, by token. True: the lease is known to be lost.
  private final Map<String, Boolean> reported = new HashMap<>();
  // False: the server is older, and answers no report.
  private boolean reports = true;
  // Reports to send at once: of deliveries that ask for a confirmation, and of those that a handler has left.
  private final Deque<String> reportNow = new ArrayDeque<>();
  // Deliveries whose handler is not called before the server confirms the report; and the confirmed.
  private final Map<String, Work> confirming = new LinkedHashMap<>();
  private final Deque<Work> confirmed = new ArrayDeque<>();
  private long lastBegin;
  // When the connection thread looks for handlers to report, if nothing wakes it.
  private long wakeAt;
  // Settlements to send, without extensions. A lease is in it at most once.
  private final Deque<io.github.duetime.v1.Settlement> outgoing = new ArrayDeque<>();
  private boolean sendNoMoreDeliveries;
  // The most settlements and reports in one request: the stream's credit. The server ends a stream that exceeds a limit, and
  // no credit is greater than this limit. Unsettled deliveries may be more than the credit, because the server no longer
  // counts those whose leases have ended.
  private int requestMax = Integer.MAX_VALUE;
  private final Map<String, Settlement.Kind> unconfirmed = new HashMap<>();
  // The releases of skipped deliveries that are not confirmed.
  private final Set<String> skippedTokens = new HashSet<>();

  private boolean stopping;
  private long lostBeforeStop;
  private boolean closing;
  private boolean ended;

  private long delivered;
  private long acked;
  private long nacked;
  private long deadLettered;
  private long released;
  private long left;
  private long refused;
  private long lost;
  private long skipped;
  private long streams;
  private long settleRequests;
  private long extended;
  private long leasesLost;

  /** {@code handlers} and {@code extendMax} as in the subscriber's builder; the clock is System.nanoTime. */
  SubscriberState(int handlers, Duration extendMax, LongSupplier clock) {
    this.handlers = handlers;
    this.clock = clock;
    leases = new LeaseKeeper(extendMax);
    wakeAt = clock.getAsLong();
    lastBegin = wakeAt - BUSY_NANOS;
  }

  // ---- Connection thread

  /** Call before a stream is opened. Returns the number of the stream. */
  long beginStream() {
    lock.lock();
    try {
      stream++;
      streamOpen = true;
      readEnded = false;
      draining = false;
      halfClosed = false;
      reports = true;
      requestMax = Integer.MAX_VALUE;
      lastFrame = clock.getAsLong();
      return stream;
    } finally {
      lock.unlock();
    }
  }

  /** The stream has ended: drops its deliveries and settlements. */
  void endStream() {
    lock.lock();
    try {
      streamOpen = false;
      clearQueue();
      leases.clear();
      outgoing.clear();
      unreported.clear();
      reportNow.clear();
      reported.clear();
      sendNoMoreDeliveries = false;
      lost += unconfirmed.size();
      unconfirmed.clear();
      skippedTokens.clear();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Waits for the next task of the open stream. For WRITE it moves settlements and reports of handlers into the request,
   * at most as many as the credit, if {@code ready} says that the connection takes more bytes.
   */
  Task nextTask(BooleanSupplier ready, long silenceMax, SubscribeRequest.Builder request) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      for (;;) {
        if (readEnded) return Task.OVER;
        if (closing) return Task.CLOSE;
        long now = clock.getAsLong();
        long wait = lastFrame + silenceMax - now;
        if (wait <= 0) return Task.SILENT;
        wakeAt = now;
        if (!halfClosed && ready.getAsBoolean()) {
          if (fill(now, request)) return Task.WRITE;
          // The server drains and nothing is left to settle: end the stream, so that the server does not wait for its
          // full grace period.
          if (draining && queue.isEmpty() && busyHandlers == 0 && unconfirmed.isEmpty()) {
            halfClosed = true;
            return Task.HALF_CLOSE;
          }
          wait = Math.min(wait, Math.min(leases.untilCollect(now), untilReport(now)));
          wakeAt = now + wait;
        }
        taskReady.awaitNanos(wait);
      }
    } finally {
      lock.unlock();
    }
  }

  /** As {@link #nextTask} without the wait: returns false if there is nothing to send. */
  boolean takeRequest(SubscribeRequest.Builder request) {
    lock.lock();
    try {
      return fill(clock.getAsLong(), request);
    } finally {
      lock.unlock();
    }
  }

  /** Moves what fits into one request. Returns false if there is nothing. */
  private boolean fill(long now, SubscribeRequest.Builder request) {
    dropQueued(leases.collect(now, requestMax, request), this::giveBack);
    int room = requestMax - request.getSettlementsCount();
    if (room > 0 && !outgoing.isEmpty()) settleRequests++;
    // No lease is in the request twice, because a lease that is settled is not extended.
    for (; room > 0 && !outgoing.isEmpty(); room--) request.addSettlements(outgoing.remove());
    boolean noMore = sendNoMoreDeliveries;
    if (noMore) request.setNoMoreDeliveries(true);
    sendNoMoreDeliveries = false;
    boolean anyway = noMore || request.getSettlementsCount() > 0 || !reportNow.isEmpty();
    return addReports(now, anyway, room, request) || anyway;
  }

  /** Adds reports of handlers that have begun. {@code anyway}: there is a request without them, too. */
  private boolean addReports(long now, boolean anyway, int room, SubscribeRequest.Builder request) {
    for (; room > 0 && !reportNow.isEmpty(); room--) request.addBegun(reportNow.remove());
    Iterator<Map.Entry<String, Long>> next = unreported.entrySet().iterator();
    for (; room > 0 && next.hasNext(); room--) {
      Map.Entry<String, Long> begin = next.next();
      boolean alone = request.getBegunCount() == 0 && !anyway;
      if (now - begin.getValue() < (alone ? REPORT_ALONE_NANOS : REPORT_ANYWAY_NANOS)) break;
      next.remove();
      request.addBegun(begin.getKey());
    }
    for (String token : request.getBegunList()) reported.put(token, false);
    return request.getBegunCount() > 0;
  }

  /** Returns in how many nanoseconds to report a handler. */
  private long untilReport(long now) {
    if (!unreported.isEmpty()) return unreported.values().iterator().next() + REPORT_ALONE_NANOS - now;
    return now - lastBegin < BUSY_NANOS ? REPORT_ALONE_NANOS : Long.MAX_VALUE;
  }

  /** Waits before the next stream. Returns false as soon as a stop was requested. */
  boolean pause(long nanos) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      for (long wait = nanos; !stopping && wait > 0;) wait = changed.awaitNanos(wait);
      return !stopping;
    } finally {
      lock.unlock();
    }
  }

  /** The subscriber has ended by itself: handlers get no more work. */
  void end() {
    lock.lock();
    try {
      ended = true;
      workReady.signalAll();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  // ---- Network threads

  /** A response of the stream with this number arrived. */
  void onResponse(long number, SubscribeResponse response) {
    lock.lock();
    try {
      if (!streamOpen || number != stream) return;
      lastFrame = clock.getAsLong();
      if (response.hasStarted()) {
        streams++;
        leases.start(response.getStarted().getLeaseDuration());
        int credit = response.getStarted().getMaxOutstandingMessages();
        requestMax = credit > 0 ? credit : Integer.MAX_VALUE;
        taskReady.signal();
      }
      confirm(response);
      if (response.hasDrain()) {
        draining = true;
        taskReady.signal();
      }
      for (io.github.duetime.v1.Delivery delivery : response.getDeliveriesList()) {
        Work work = new Work(new Delivery(delivery), number);
        if (stopping) {
          skip(work);
        } else {
          leases.add(work.token(), lastFrame);
          queue.add(work);
          workReady.signal();
        }
      }
    } finally {
      lock.unlock();
    }
  }

  private void confirm(SubscribeResponse response) {
    for (String token : response.getExtendedList()) leases.onExtended(token);
    extended += response.getExtendedCount();
    for (String token : response.getBegunList()) onBegun(token);
    if (response.getSettledCount() == 0 && response.getRefusedCount() == 0) return;
    for (String token : response.getSettledList()) {
      // The server answers a report before the settlement.
      if (reported.containsKey(token)) {
        reports = false;
        unreported.clear();
        reported.clear();
        reportNow.clear();
      }
      if (skippedTokens.remove(token)) continue;
      Settlement.Kind kind = unconfirmed.remove(token);
      if (kind == null) continue;
      switch (kind) {
        case ACK -> acked++;
        case NACK -> nacked++;
        case DEAD_LETTER -> deadLettered++;
        case RELEASE -> released++;
        case LEAVE -> throw new IllegalStateException("a delivery that was left has no settlement");
      }
    }
    Set<String> lostTokens = new HashSet<>();
    for (SettleRefusal refusal : response.getRefusedList()) {
      if (onRefused(refusal.getLeaseToken())) lostTokens.add(refusal.getLeaseToken());
    }
    dropQueued(lostTokens, work -> skipped++);
    if (!unconfirmed.isEmpty()) return;
    if (stopping) changed.signalAll();
    if (draining) taskReady.signal();
  }

  private void onBegun(String token) {
    reported.remove(token);
    Work work = confirming.remove(token);
    if (work == null) return;
    confirmed.add(work);
    workReady.signal();
  }

  /**
   * A token may have been sent in a report, in an extension, and then in a settlement. The server answers the settlement
   * last. Returns true if the lease is lost although it is not settled.
   */
  private boolean onRefused(String token) {
    Boolean known = reported.get(token);
    if (leases.onRefused(token)) {
      // The server refuses the report, too.
      if (known != null) reported.put(token, true);
    } else if (known != null) {
      reported.remove(token);
      if (known) return false;
    } else {
      if (!skippedTokens.remove(token) && unconfirmed.remove(token) != null) refused++;
      return false;
    }
    leasesLost++;
    leases.remove(token);
    unreported.remove(token);
    if (confirming.remove(token) != null) {
      busyHandlers--;
      skipped++;
      workReady.signal();
    }
    return true;
  }

  /** The stream with this number has ended. */
  void onStreamEnd(long number) {
    lock.lock();
    try {
      if (number != stream) return;
      readEnded = true;
      taskReady.signal();
    } finally {
      lock.unlock();
    }
  }

  /** The connection takes more bytes. */
  void onReady() {
    lock.lock();
    try {
      taskReady.signal();
    } finally {
      lock.unlock();
    }
  }

  // ---- Handler threads

  /** Waits for work: 1 to {@code most} deliveries. Returns none after a stop request, and when the subscriber has ended. */
  List<Work> takeWork(int most) {
    lock.lock();
    try {
      for (;;) {
        if (stopping || ended) return List.of();
        List<Work> batch = pollWork(most);
        if (!batch.isEmpty()) return batch;
        workReady.awaitUninterruptibly();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Returns the next deliveries for a handler; none if there are none, or no handler is free. */
  List<Work> pollWork(int most) {
    lock.lock();
    try {
      long now = clock.getAsLong();
      if (!confirmed.isEmpty()) {
        leases.begin(confirmed.peek().token(), now);
        return List.of(confirmed.remove());
      }
      List<Work> batch = new ArrayList<>(Math.min(most, queue.size()));
      while (busyHandlers < handlers && !queue.isEmpty() && batch.size() < most) {
        // A delivery to confirm gets a call of its own.
        if (queue.peek().confirms() && !batch.isEmpty()) break;
        Work work = queue.remove();
        String token = work.token();
        if (leases.hasEnded(token, now)) {
          leasesLost++;
          skip(work);
          if (draining) taskReady.signal();
          continue;
        }
        leases.begin(token, now);
        if (work.confirms()) {
          busyHandlers++;
          confirming.put(token, work);
          reportNow.add(token);
          taskReady.signal();
          continue;
        }
        batch.add(work);
        if (!reports) continue;
        unreported.put(token, now);
        lastBegin = now;
        if (wakeAt - now > REPORT_ALONE_NANOS) taskReady.signal();
      }
      if (!batch.isEmpty()) busyHandlers++;
      return batch;
    } finally {
      lock.unlock();
    }
  }

  /** The handler returned. There is one settlement for each of its deliveries. */
  void settle(List<Work> batch, List<Settlement> settlements) {
    lock.lock();
    try {
      busyHandlers--;
      for (int i = 0; i < batch.size(); i++) settle(batch.get(i), settlements.get(i));
      taskReady.signal();
      if (stopping) changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  private void settle(Work work, Settlement settlement) {
    delivered++;
    String token = work.token();
    boolean leave = settlement.kind() == Settlement.Kind.LEAVE;
    boolean current = streamOpen && work.stream() == stream;
    if (current) {
      leases.remove(token);
      // Without a report, the server would take a delivery that is left for one that has perhaps ended its process.
      if (unreported.remove(token) != null && leave) reportNow.add(token);
    }
    if (leave) {
      left++;
    } else if (!current) {
      lost++;
    } else {
      outgoing.add(settlement.toProto(token));
      unconfirmed.put(token, settlement.kind());
    }
  }

  // ---- Callers

  /** Hands out no more work, and gives back what no handler has begun. */
  void requestStop() {
    lock.lock();
    try {
      if (stopping) return;
      stopping = true;
      lostBeforeStop = lost;
      // Sent before the releases, so that the server does not deliver the same messages here again.
      if (streamOpen) sendNoMoreDeliveries = true;
      clearQueue();
      taskReady.signal();
      workReady.signalAll();
      changed.signalAll();
    } finally {
      lock.unlock();
    }
  }

  /** Waits for running handlers. Returns true if all have returned. Call after requestStop. */
  boolean awaitHandlers(Duration timeout) throws InterruptedException {
    return await(() -> busyHandlers == 0, timeout);
  }

  /**
   * Waits until the server has confirmed the settlements. Returns true if it confirmed all of them, and none was lost
   * since requestStop. Call after requestStop.
   */
  boolean awaitConfirmed(Duration timeout) throws InterruptedException {
    await(() -> unconfirmed.isEmpty() && skippedTokens.isEmpty() || !streamOpen, timeout);
    lock.lock();
    try {
      return (unconfirmed.isEmpty() || !streamOpen) && lost == lostBeforeStop;
    } finally {
      lock.unlock();
    }
  }

  private boolean await(BooleanSupplier condition, Duration timeout) throws InterruptedException {
    lock.lockInterruptibly();
    try {
      long wait = Times.nanos(timeout);
      while (!condition.getAsBoolean() && wait > 0) wait = changed.awaitNanos(wait);
      return condition.getAsBoolean();
    } finally {
      lock.unlock();
    }
  }

  /** Makes nextTask return CLOSE. */
  void close() {
    lock.lock();
    try {
      closing = true;
      taskReady.signal();
    } finally {
      lock.unlock();
    }
  }

  SubscriberCounts counts() {
    lock.lock();
    try {
      return new SubscriberCounts(delivered, acked, nacked, deadLettered, released, left, refused, lost, skipped, streams,
          settleRequests, extended, leasesLost);
    } finally {
      lock.unlock();
    }
  }

  /** Drops the deliveries whose handler was not called. */
  private void clearQueue() {
    List<Work> waiting = new ArrayList<>(confirming.values());
    waiting.addAll(confirmed);
    busyHandlers -= waiting.size();
    reportNow.removeAll(confirming.keySet());
    confirming.clear();
    confirmed.clear();
    waiting.addAll(queue);
    queue.clear();
    waiting.forEach(this::skip);
  }

  /** Removes the waiting deliveries with these tokens. */
  private void dropQueued(Set<String> tokens, Consumer<Work> drop) {
    if (tokens.isEmpty()) return;
    queue.removeIf(work -> {
      boolean gone = tokens.contains(work.token());
      if (gone) drop.accept(work);
      return gone;
    });
  }

  /** Drops a delivery that no handler got. Releases it if the subscriber stops and the stream is open. */
  private void skip(Work work) {
    if (stopping && streamOpen) {
      giveBack(work);
    } else {
      skipped++;
      leases.remove(work.token());
    }
  }

  private void giveBack(Work work) {
    skipped++;
    leases.remove(work.token());
    outgoing.add(Settlement.release().toProto(work.token()));
    skippedTokens.add(work.token());
    taskReady.signal();
  }
}
