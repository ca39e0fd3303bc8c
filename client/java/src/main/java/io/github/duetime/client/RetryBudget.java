// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.concurrent.TimeUnit;

/**
 * Bounds the repeats of one client, so that many clients do not overload a server that fails. Each repeat takes a token. It
 * returns the token if the server answers, also with an error that ends the call, so that after a restart all waiting calls may
 * repeat at once. The caller passes the time of System.nanoTime. Thread-safe.
 */
final class RetryBudget {
  // In nanoseconds, because each second adds a token.
  private static final long TOKEN = TimeUnit.SECONDS.toNanos(1);
  private static final long TOKENS_MAX = 100 * TOKEN;
  private static final long PER_CALL = TOKEN / 10;

  private long tokens = TOKENS_MAX;
  private long filledAt;

  RetryBudget(long now) {
    filledAt = now;
  }

  /** A call makes its first try. */
  synchronized void onCall() {
    add(PER_CALL);
  }

  /** Takes a token for a repeat. Returns false if there is none. */
  synchronized boolean take(long now) {
    long passed = now - filledAt;
    if (passed > 0) {
      add(passed);
      filledAt = now;
    }
    if (tokens < TOKEN) return false;
    tokens -= TOKEN;
    return true;
  }

  /** The server answered the repeat, so its token comes back, with one more. */
  synchronized void giveBack() {
    add(2 * TOKEN);
  }

  private void add(long more) {
    tokens = Math.min(tokens + more, TOKENS_MAX);
  }
}
