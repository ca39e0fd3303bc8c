// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.time.Duration;
import java.util.random.RandomGenerator;

/**
 * Exponential backoff with jitter. Each wait is drawn evenly from the upper half of its bound, so that clients that lost
 * the same server do not reconnect at the same time, and none reconnects at once. Not thread-safe.
 */
final class Backoff {
  private final BackoffOptions options;
  private final RandomGenerator random;
  private long bound;

  Backoff(BackoffOptions options, RandomGenerator random) {
    this.options = options;
    this.random = random;
    reset();
  }

  /** Returns the next wait in nanoseconds: {@code serverDelay}, which the server requested, and the wait on top of it. */
  long next(Duration serverDelay) {
    long wait = (long) (bound * random.nextDouble(0.5, 1.0));
    bound = (long) Math.min(bound * options.multiplier(), options.max().toNanos());
    // The jitter comes on top of the server's delay, because many clients got the same delay.
    return Times.nanos(serverDelay) + wait;
  }

  /** Starts again with the first wait. */
  void reset() {
    bound = options.initial().toNanos();
  }
}
