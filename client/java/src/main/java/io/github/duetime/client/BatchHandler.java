// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.util.List;

/** Handles several deliveries of a {@link Subscriber} in one call. */
@FunctionalInterface
public interface BatchHandler {
  /**
   * Handles the deliveries that have arrived when the handler is free, at most {@link Subscriber.Builder#batchMax}, in the
   * order of the stream. No delivery waits for others, so there may be one. Returns one settlement for each, in their order;
   * an empty list acks all. If it throws, the subscriber nacks all with the text of the exception. So it does after another
   * number of settlements. Several threads call it at once, as many as the subscriber has handlers. It must not stop the
   * subscriber.
   *
   * @param deliveries cannot be changed
   */
  List<Settlement> handle(List<Delivery> deliveries) throws Exception;
}
