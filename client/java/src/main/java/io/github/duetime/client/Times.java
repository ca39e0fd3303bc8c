// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Converts times between java.time and Protobuf, exactly. */
final class Times {
  /** The longest time of a wait, so that a longer one does not overflow the clock's arithmetic. */
  static final Duration MAX = Duration.ofDays(365);

  private Times() {}

  static Timestamp toProto(Instant time) {
    return Timestamp.newBuilder().setSeconds(time.getEpochSecond()).setNanos(time.getNano()).build();
  }

  static com.google.protobuf.Duration toProto(Duration duration) {
    long seconds = duration.getSeconds();
    int nanos = duration.getNano();
    // Protobuf requires that seconds and nanos have the same sign. Nanos of java.time are never negative.
    if (seconds < 0 && nanos > 0) {
      seconds += 1;
      nanos -= 1_000_000_000;
    }
    return com.google.protobuf.Duration.newBuilder().setSeconds(seconds).setNanos(nanos).build();
  }

  static Instant fromProto(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  static Duration fromProto(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  static Duration clamp(Duration value, Duration min, Duration max) {
    return value.compareTo(min) < 0 ? min : value.compareTo(max) > 0 ? max : value;
  }

  /** Returns the length of a wait in nanoseconds: not negative, and at most {@link #MAX}. */
  static long nanos(Duration wait) {
    return clamp(wait, Duration.ZERO, MAX).toNanos();
  }
}
