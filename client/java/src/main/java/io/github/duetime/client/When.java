// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;

/**
 * When to deliver a message: after a delay, at an absolute time, or at the local time of a time zone. With a delay of zero
 * or a time in the past the message is due at once. The server works in milliseconds and rounds up, so that no message is
 * early. It refuses negative delays, and times out of its range.
 */
public sealed interface When {
  /**
   * A delay that counts from the arrival of the request at the server.
   *
   * @param delay the delay
   */
  record After(Duration delay) implements When {}

  /**
   * An absolute time.
   *
   * @param time the time
   */
  record At(Instant time) implements When {}

  /**
   * A local time, which the server resolves with its time zone database. {@code CivilTime} in the protos has the rules
   * for local times that do not exist or occur twice.
   *
   * @param time {@code 2026-11-21T09:00}, optionally followed by {@code :30} or {@code :30.250}
   * @param timeZone an IANA name like {@code Europe/Berlin}
   */
  record Local(String time, String timeZone) implements When {}

  /** Returns the time after this delay. */
  static When after(Duration delay) {
    return new After(delay);
  }

  /** Returns the absolute time. */
  static When at(Instant time) {
    return new At(time);
  }

  /** Returns the local time of the zone, rounded up to milliseconds. The zone must have an IANA name. */
  static When local(LocalDateTime time, ZoneId timeZone) {
    long excess = time.getNano() % 1_000_000;
    return new Local((excess == 0 ? time : time.plusNanos(1_000_000 - excess)).toString(), timeZone.getId());
  }

  /** Returns the local time, as in {@link Local}. */
  static When local(String time, String timeZone) {
    return new Local(time, timeZone);
  }
}
