// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.SettleResponse;

/**
 * The result of settlements. {@code SettleResponse} in the protos explains it.
 *
 * @param answer the server's answer
 * @param triedBefore true if an earlier try of this call ended without an answer. LEASE_LOST may then be the effect of
 *     that try.
 */
public record SettleResult(SettleResponse answer, boolean triedBefore) {}
