// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.concurrent.TimeUnit;

/**
 * Lets a repeated line of the log through at once, after 10 s, after 20 s more, and so on up to each hour. The caller passes
 * the time of System.nanoTime. Thread-safe.
 */
final class Rarely {
  private static final long WAIT_MIN = TimeUnit.SECONDS.toNanos(10);
  private static final long WAIT_MAX = TimeUnit.HOURS.toNanos(1);

  private boolean began;
  private long next;
  private long wait;

  synchronized boolean may(long now) {
    if (began && now - next < 0) return false;
    // After a quiet time it begins anew.
    wait = began && now - next < wait ? Math.min(wait * 2, WAIT_MAX) : WAIT_MIN;
    began = true;
    next = now + wait;
    return true;
  }
}
