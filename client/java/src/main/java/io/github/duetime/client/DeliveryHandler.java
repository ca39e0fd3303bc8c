// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

/** Handles the deliveries of a {@link Subscriber}. */
@FunctionalInterface
public interface DeliveryHandler {
  /**
   * Handles a delivery and returns how to settle it. If it throws, the subscriber nacks the delivery with the text of the
   * exception. Several threads call it at once, as many as the subscriber has handlers. It must not stop the subscriber.
   */
  Settlement handle(Delivery delivery) throws Exception;
}
