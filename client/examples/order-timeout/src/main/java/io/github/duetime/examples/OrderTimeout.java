// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.examples;

import io.github.duetime.client.CancelResult;
import io.github.duetime.client.Delivery;
import io.github.duetime.client.DuetimeClient;
import io.github.duetime.client.NewMessage;
import io.github.duetime.client.Settlement;
import io.github.duetime.client.Subscriber;
import io.github.duetime.client.Target;
import io.github.duetime.v1.CancelResponse;
import io.github.duetime.v1.ScheduleRequest.OnConflict;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;

/** Cancels an order that is not paid in time. */
public final class OrderTimeout {
  private static final String TOPIC = "order-timeouts";

  private enum State {
    OPEN,
    PAID,
    CANCELLED
  }

  // Stands for the table of orders. replace(order, OPEN, x) is: UPDATE orders SET state = x WHERE id = ? AND state = 'OPEN'.
  private final Map<String, State> orders = new ConcurrentHashMap<>();
  private final DuetimeClient client;
  private final Duration timeout;

  private OrderTimeout(DuetimeClient client, Duration timeout) {
    this.client = client;
    this.timeout = timeout;
  }

  /** Places an order, and returns the time at which it will be cancelled. */
  private Instant place(String order) {
    // The key and ONCE make a repeat of this call safe until a day after the end of the message: it keeps the first deadline. And
    // the payment finds the message by the key, without an id in the database.
    NewMessage message = NewMessage.builder(TOPIC).key("order-" + order).onConflict(OnConflict.ON_CONFLICT_ONCE)
        .payload(order).after(timeout).build();
    // Before the order, because a time-out without an order does no harm. An order without a time-out would stay open for ever.
    var deadline = client.schedule(message).getMessage().getDeliverTime();
    orders.putIfAbsent(order, State.OPEN);
    return Instant.ofEpochSecond(deadline.getSeconds(), deadline.getNanos());
  }

  /** Pays an order. Returns false if the time-out was first. */
  private boolean pay(String order) {
    // The table decides between the payment and the time-out, because the time-out may be in a handler at this moment.
    if (!orders.replace(order, State.OPEN, State.PAID)) return false;
    CancelResult result = client.cancel(Target.key(TOPIC, "order-" + order));
    if (result.outcome() != CancelResponse.Outcome.OUTCOME_CANCELLED) {
      // No error: the handler finds the order paid.
      System.out.println("order " + order + ": the time-out is not cancelled: " + result.outcome());
    }
    return true;
  }

  /** Handles a time-out. If it throws, duetime delivers the time-out again. A repeat changes nothing. */
  private Settlement onTimeout(Delivery delivery) {
    String order = delivery.text();
    if (orders.replace(order, State.OPEN, State.CANCELLED)) {
      System.out.println("order " + order + ": cancelled, because it was not paid in time");
    }
    return Settlement.ack();
  }

  /** The first argument is the time-out in ISO 8601, for example PT5S. Reads commands: place ORDER, pay ORDER. */
  public static void main(String[] arguments) {
    Duration timeout = arguments.length > 0 ? Duration.parse(arguments[0]) : Duration.ofMinutes(30);
    String server = System.getenv().getOrDefault("DUETIME_SERVER", "127.0.0.1:7788");
    try (DuetimeClient client = DuetimeClient.connect(server)) {
      OrderTimeout shop = new OrderTimeout(client, timeout);
      try (Subscriber subscriber = client.subscriber(TOPIC).start(shop::onTimeout); Scanner lines = new Scanner(System.in)) {
        System.out.println("type: place ORDER, or: pay ORDER; Ctrl-D ends");
        while (lines.hasNextLine()) {
          String[] words = lines.nextLine().trim().split("\\s+");
          if (words.length == 2 && words[0].equals("place")) {
            System.out.println("order " + words[1] + ": open until " + shop.place(words[1]));
          } else if (words.length == 2 && words[0].equals("pay")) {
            System.out.println("order " + words[1] + ": " + (shop.pay(words[1]) ? "paid" : "cannot be paid"));
          }
        }
      }
    }
  }
}
