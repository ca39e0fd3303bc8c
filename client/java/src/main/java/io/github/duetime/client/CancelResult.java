// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.CancelResponse;

/**
 * The result of a cancel. {@code CancelResponse} in the protos explains each outcome.
 *
 * @param answer the server's answer
 * @param triedBefore true if an earlier try of this call ended without an answer. ALREADY_CANCELLED may then be the
 *     effect of that try; so may NOT_FOUND, in a topic without retention of ended messages.
 */
public record CancelResult(CancelResponse answer, boolean triedBefore) {
  /** Returns the outcome. */
  public CancelResponse.Outcome outcome() {
    return answer.getOutcome();
  }
}
