// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.github.duetime.client.BackoffOptions;
import io.github.duetime.client.Delivery;
import io.github.duetime.client.DuetimeClient;
import io.github.duetime.client.DuetimeException;
import io.github.duetime.client.Settlement;
import io.github.duetime.client.Subscriber;
import io.github.duetime.client.SubscriberCounts;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** A subscriber whose handlers report each delivery, and then do what the runner says. */
final class Worker {
  private static final JsonObject LEAVE = new JsonObject();

  static {
    JsonObject settlement = new JsonObject();
    settlement.addProperty("kind", "leave");
    LEAVE.add("settlement", settlement);
  }

  private final String name;
  private final boolean manual;
  private final Duration handlerTime;
  // The payload whose handler ends the process; null: none.
  private final String exitOn;
  private final AtomicLong calls = new AtomicLong();
  // How each call ends: a request of subscriber_finish.
  private final Map<Long, CompletableFuture<JsonObject>> endings = new ConcurrentHashMap<>();
  private final Subscriber subscriber;

  Worker(JsonObject request, DuetimeClient client) {
    name = Wire.text(request, "subscriber");
    manual = !Wire.text(request, "mode").equals("ack");
    handlerTime = Wire.millis(request, "handler_ms", Duration.ZERO);
    exitOn = request.has("exit_on") ? Wire.text(request, "exit_on") : null;
    BackoffOptions backoff = new BackoffOptions(
        Wire.millis(request, "backoff_initial_ms", BackoffOptions.DEFAULT.initial()),
        Wire.millis(request, "backoff_max_ms", BackoffOptions.DEFAULT.max()), BackoffOptions.DEFAULT.multiplier());
    Subscriber.Builder builder = client.subscriber(Wire.text(request, "topic"))
        .subscription(Wire.text(request, "subscription"))
        .clientId(Wire.text(request, "client_id"))
        .backoff(backoff);
    if (request.has("max_outstanding_messages")) {
      builder.maxOutstandingMessages(request.get("max_outstanding_messages").getAsInt());
    }
    if (request.has("max_outstanding_bytes")) builder.maxOutstandingBytes(request.get("max_outstanding_bytes").getAsLong());
    if (request.has("lease_ms")) builder.lease(Wire.millis(request, "lease_ms", null));
    if (request.has("extend_max_ms")) builder.extendMax(Wire.millis(request, "extend_max_ms", null));
    if (request.has("silence_max_ms")) builder.silenceMax(Wire.millis(request, "silence_max_ms", null));
    if (request.has("handlers")) builder.handlers(request.get("handlers").getAsInt());
    subscriber = request.has("batch")
        ? builder.batchMax(request.get("batch").getAsInt()).startBatch(this::handleBatch) : builder.start(this::handle);
    subscriber.ended().whenComplete((nothing, error) -> {
      if (error == null) return;
      JsonObject event = event("ended");
      event.add("error", Wire.json((DuetimeException) (error instanceof DuetimeException ? error : error.getCause())));
      Wire.print(event);
    });
  }

  private JsonObject event(String kind) {
    JsonObject event = new JsonObject();
    event.addProperty("event", kind);
    event.addProperty("subscriber", name);
    return event;
  }

  private Settlement handle(Delivery delivery) throws Exception {
    JsonObject event = event("delivery");
    event.add("delivery", Wire.json(delivery.proto()));
    JsonObject ending = await(event, List.of(delivery));
    return ending == null ? Settlement.ack() : settlementOf(ending.getAsJsonObject("settlement"));
  }

  private List<Settlement> handleBatch(List<Delivery> deliveries) throws Exception {
    JsonObject event = event("batch");
    JsonArray list = new JsonArray();
    deliveries.forEach(delivery -> list.add(Wire.json(delivery.proto())));
    event.add("deliveries", list);
    JsonObject ending = await(event, deliveries);
    if (ending == null) return List.of();
    if (ending.has("settlement")) {
      return Collections.nCopies(deliveries.size(), settlementOf(ending.getAsJsonObject("settlement")));
    }
    List<Settlement> settlements = new ArrayList<>();
    ending.getAsJsonArray("settlements").forEach(settlement -> settlements.add(settlementOf(settlement.getAsJsonObject())));
    return settlements;
  }

  /** Prints the event of a call, and waits for its end. Returns null in the mode "ack". */
  private JsonObject await(JsonObject event, List<Delivery> deliveries) throws Exception {
    if (deliveries.stream().anyMatch(delivery -> delivery.text().equals(exitOn))) Runtime.getRuntime().halt(3);
    long n = calls.incrementAndGet();
    event.addProperty("n", n);
    Wire.print(event);
    if (manual) {
      JsonObject ending = ending(n).get();
      endings.remove(n);
      return ending;
    }
    Thread.sleep(handlerTime.toMillis());
    return null;
  }

  private CompletableFuture<JsonObject> ending(long n) {
    return endings.computeIfAbsent(n, key -> new CompletableFuture<>());
  }

  private static Settlement settlementOf(JsonObject json) {
    String reason = Wire.text(json, "reason");
    Duration delay = Wire.millis(json, "delay_ms", null);
    return switch (Wire.text(json, "kind")) {
      case "ack" -> Settlement.ack();
      case "nack" -> delay == null ? Settlement.nack(reason) : Settlement.nackAfter(delay, reason);
      case "dead_letter" -> Settlement.deadLetter(reason);
      case "release" -> delay == null ? Settlement.release() : Settlement.releaseAfter(delay);
      case "leave" -> Settlement.leave();
      case "raise" -> throw new IllegalStateException(reason);
      default -> throw new IllegalArgumentException("unknown settlement: " + json);
    };
  }

  void finish(long n, JsonObject request) {
    ending(n).complete(request);
  }

  boolean stop(Duration handlers, Duration confirm) {
    return subscriber.stop(handlers, confirm);
  }

  /** Lets the waiting handlers return without a settlement, and stops the subscriber. */
  void close() {
    endings.values().forEach(ending -> ending.complete(LEAVE));
    subscriber.stop(Duration.ofSeconds(1), Duration.ofSeconds(1));
  }

  JsonObject counts() {
    SubscriberCounts counts = subscriber.counts();
    JsonObject json = new JsonObject();
    json.addProperty("delivered", counts.delivered());
    json.addProperty("acked", counts.acked());
    json.addProperty("nacked", counts.nacked());
    json.addProperty("dead_lettered", counts.deadLettered());
    json.addProperty("released", counts.released());
    json.addProperty("left", counts.left());
    json.addProperty("refused", counts.refused());
    json.addProperty("lost", counts.lost());
    json.addProperty("skipped", counts.skipped());
    json.addProperty("streams", counts.streams());
    json.addProperty("extended", counts.extended());
    json.addProperty("leases_lost", counts.leasesLost());
    return json;
  }
}
