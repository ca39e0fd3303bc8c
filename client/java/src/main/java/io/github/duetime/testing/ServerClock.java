// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.testing;

import com.google.protobuf.Timestamp;
import io.github.duetime.client.AdminClient;
import io.github.duetime.client.DuetimeException;
import io.github.duetime.v1.AdvanceLimits;
import io.github.duetime.v1.AdvanceRequest;
import io.github.duetime.v1.AdvanceToNextRequest;
import io.github.duetime.v1.Advanced;
import io.github.duetime.v1.GetClockRequest;
import io.github.duetime.v1.HandOut;
import io.github.duetime.v1.TestClockGrpc;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** The clock of a test server. It stands still, and moves when a test says so. For one thread at a time. */
public final class ServerClock {
  // The hand-outs that a move of the clock lists.
  private static final int HAND_OUTS_MAX = 10_000;

  private final AdminClient calls;
  private final List<HandOut> handOuts = new ArrayList<>();

  ServerClock(AdminClient calls) {
    this.calls = calls;
  }

  /** Returns server time. */
  public Instant now() {
    return instant(
        calls.call(TestClockGrpc.getGetClockMethod(), GetClockRequest.getDefaultInstance()).getClock().getTime());
  }

  /**
   * Moves the clock. Each message on the way is handed out at its own time, and the clock waits there until subscribers have
   * settled all that they have. Returns what happened.
   *
   * @throws DuetimeException.DeadlineExceeded with the time at which the clock stands, if subscribers or the server need longer
   *     than 10 s
   */
  public Advanced advance(Duration by) {
    com.google.protobuf.Duration proto =
        com.google.protobuf.Duration.newBuilder().setSeconds(by.getSeconds()).setNanos(by.getNano()).build();
    return advance(AdvanceRequest.newBuilder().setBy(proto).setLimits(limits(TestServer.TIMEOUT)).build());
  }

  /** Moves the clock to this time, as {@link #advance(Duration)}. */
  public Advanced advanceTo(Instant to) {
    return advance(AdvanceRequest.newBuilder().setTo(timestamp(to)).setLimits(limits(TestServer.TIMEOUT)).build());
  }

  /** Moves the clock as the request says, with limits of its own. */
  public Advanced advance(AdvanceRequest request) {
    return moved(calls.call(TestClockGrpc.getAdvanceMethod(), request).getAdvanced());
  }

  /**
   * Moves the clock to the next time at which something happens to a message, as {@link #advance(Duration)}. If nothing ever does,
   * the {@code stop} of the answer is STOP_NOTHING.
   */
  public Advanced next() {
    return next(AdvanceToNextRequest.newBuilder().setLimits(limits(TestServer.TIMEOUT)).build());
  }

  /** As {@link #next()}, and does not pass this time. */
  public Advanced next(Instant until) {
    return next(
        AdvanceToNextRequest.newBuilder().setUntil(timestamp(until)).setLimits(limits(TestServer.TIMEOUT)).build());
  }

  private Advanced next(AdvanceToNextRequest request) {
    return moved(calls.call(TestClockGrpc.getAdvanceToNextMethod(), request).getAdvanced());
  }

  List<HandOut> handOuts() {
    return handOuts;
  }

  private static AdvanceLimits limits(Duration timeout) {
    return AdvanceLimits.newBuilder().setUntilIdle(true).setHandOutsMax(HAND_OUTS_MAX)
        .setTimeout(com.google.protobuf.Duration.newBuilder().setSeconds(timeout.toSeconds())).build();
  }

  private Advanced moved(Advanced advanced) {
    handOuts.addAll(advanced.getHandOutsList());
    String why = switch (advanced.getStop()) {
      case STOP_SUBSCRIBERS -> "subscribers have messages whose handlers run or wait";
      case STOP_TIMEOUT -> "the time was over before the server had done all";
      default -> null;
    };
    if (why == null) return advanced;
    throw DuetimeException.of(Status.Code.DEADLINE_EXCEEDED,
        "the clock stands at " + instant(advanced.getClock().getTime()) + ", because " + why);
  }

  private static Timestamp timestamp(Instant time) {
    return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
  }

  private static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }
}
