// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

/**
 * What a subscriber did since its start. Each delivery ends in one of acked, nacked, deadLettered, released, left,
 * refused, lost or skipped.
 *
 * @param delivered deliveries that the handler got and returned from
 * @param acked acks that the server confirmed
 * @param nacked nacks that the server confirmed
 * @param deadLettered dead letters that the server confirmed
 * @param released releases of handlers that the server confirmed
 * @param left deliveries that the handler left without an answer
 * @param refused settlements that the server refused: too late, or invalid
 * @param lost settlements without confirmation when the stream ended; the message may come again
 * @param skipped deliveries that the handler did not get: the stream or the lease ended, the subscriber stopped, or no
 *     handler was free within {@code extendMax}. The messages come again. This is no failed attempt
 * @param streams streams that the server opened
 * @param settleRequests requests with settlements; under load far fewer than settlements
 * @param extended leases that the server extended
 * @param leasesLost leases that ended while the delivery waited or its handler ran, so that another subscriber may have
 *     the message
 */
public record SubscriberCounts(long delivered, long acked, long nacked, long deadLettered, long released, long left,
    long refused, long lost, long skipped, long streams, long settleRequests, long extended, long leasesLost) {}
