// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.time.Duration;

/**
 * The lengths of the waits between tries.
 *
 * @param initial the bound of the first wait
 * @param max the longest wait, unless the server requests a longer one
 * @param multiplier the factor between successive bounds
 */
public record BackoffOptions(Duration initial, Duration max, double multiplier) {
  /** From 100 ms to 5 s, doubling. */
  public static final BackoffOptions DEFAULT = new BackoffOptions(Duration.ofMillis(100), Duration.ofSeconds(5), 2);

  /** Replaces values out of bounds by the nearest valid ones. */
  public BackoffOptions {
    initial = Times.clamp(initial, Duration.ofMillis(1), Times.MAX);
    max = Times.clamp(max, initial, Times.MAX);
    multiplier = Math.max(multiplier, 1);
  }
}
