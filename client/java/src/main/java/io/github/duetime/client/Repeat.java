// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

/** What a schedule does if the answer is lost. */
public enum Repeat {
  /**
   * Gives each message without a request id a random one, and tries again on UNAVAILABLE. The server recognises the
   * repeat, so there is one message. This costs the server a small record per message for an hour.
   */
  SAFELY,
  /** Sends the request as it is, once. */
  NEVER,
  /**
   * Sends the request as it is, and tries again on UNAVAILABLE. Without a key and a request id there may be two
   * messages.
   */
  ALLOW_DUPLICATES
}
