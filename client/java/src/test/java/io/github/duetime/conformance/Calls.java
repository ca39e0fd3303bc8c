// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.conformance;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.protobuf.Message;
import com.google.protobuf.Timestamp;
import io.github.duetime.client.AdminClient;
import io.github.duetime.client.ClientOptions;
import io.github.duetime.client.DuetimeClient;
import io.github.duetime.client.DuetimeException;
import io.github.duetime.client.ItemResult;
import io.github.duetime.client.NewMessage;
import io.github.duetime.client.ScheduleStream;
import io.github.duetime.client.Target;
import io.github.duetime.client.When;
import io.github.duetime.v1.CancelBatchRequest;
import io.github.duetime.v1.CancelOperationRequest;
import io.github.duetime.v1.CancelRequest;
import io.github.duetime.v1.CivilTime;
import io.github.duetime.v1.CreateRecurrenceRequest;
import io.github.duetime.v1.CreateSubscriptionRequest;
import io.github.duetime.v1.CreateTopicRequest;
import io.github.duetime.v1.DeleteRecurrenceRequest;
import io.github.duetime.v1.DeleteSubscriptionRequest;
import io.github.duetime.v1.DeleteTopicRequest;
import io.github.duetime.v1.ExplainRequest;
import io.github.duetime.v1.ForecastRequest;
import io.github.duetime.v1.GetOperationRequest;
import io.github.duetime.v1.GetRecurrenceRequest;
import io.github.duetime.v1.GetRequest;
import io.github.duetime.v1.GetSubscriptionRequest;
import io.github.duetime.v1.GetTopicRequest;
import io.github.duetime.v1.ListOperationsRequest;
import io.github.duetime.v1.ListRecurrencesRequest;
import io.github.duetime.v1.ListRequest;
import io.github.duetime.v1.ListSubscriptionsRequest;
import io.github.duetime.v1.ListTopicsRequest;
import io.github.duetime.v1.PauseRecurrenceRequest;
import io.github.duetime.v1.PauseTopicRequest;
import io.github.duetime.v1.PreviewRecurrenceRequest;
import io.github.duetime.v1.PullRequest;
import io.github.duetime.v1.RescheduleRequest;
import io.github.duetime.v1.ResumeRecurrenceRequest;
import io.github.duetime.v1.ResumeTopicRequest;
import io.github.duetime.v1.ScheduleBatchRequest;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.github.duetime.v1.SettleRequest;
import io.github.duetime.v1.StartBulkRequest;
import io.github.duetime.v1.TopicKey;
import io.github.duetime.v1.UpdateRecurrenceRequest;
import io.github.duetime.v1.UpdateSubscriptionRequest;
import io.github.duetime.v1.UpdateTopicRequest;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Runs the requests of the runner with the library. Keeps clients, streams and subscribers by their names. */
final class Calls {
  private final Map<String, Function<JsonObject, JsonObject>> ops = new HashMap<>();
  private final Map<String, DuetimeClient> clients = new ConcurrentHashMap<>();
  private final Map<String, ScheduleStream> streams = new ConcurrentHashMap<>();
  private final Map<String, Worker> workers = new ConcurrentHashMap<>();

  Calls() {
    ops.put("hello", request -> {
      JsonObject answer = Wire.of("lacks", new JsonArray());
      answer.addProperty("language", "java");
      return answer;
    });
    ops.put("client_open", this::openClient);
    ops.put("client_close", request -> {
      clients.remove(Wire.text(request, "client")).close();
      return new JsonObject();
    });
    ops.put("call_together", new Together(this)::run);
    addMessages();
    addTopics();
    addRecurrences();
    addLists();
    addStreams();
    addSubscribers();
  }

  private JsonObject run(JsonObject request) {
    Function<JsonObject, JsonObject> op = ops.get(Wire.text(request, "op"));
    if (op == null) throw new IllegalArgumentException("unknown op: " + Wire.text(request, "op"));
    return op.apply(request);
  }

  /** Returns an object with the `ok` or the `error` of the answer. */
  JsonObject outcome(JsonObject request) {
    try {
      return Wire.of("ok", run(request));
    } catch (DuetimeException e) {
      return Wire.of("error", Wire.json(e));
    } catch (Exception e) {
      e.printStackTrace();
      JsonObject error = new JsonObject();
      error.addProperty("code", "DRIVER");
      error.addProperty("message", e.toString());
      return Wire.of("error", error);
    }
  }

  void close() {
    streams.values().forEach(ScheduleStream::close);
    workers.values().parallelStream().forEach(Worker::close);
    clients.values().forEach(DuetimeClient::close);
  }

  private JsonObject openClient(JsonObject request) {
    ClientOptions.Builder options = ClientOptions.builder().target(Wire.text(request, "server"));
    if (request.has("tls_ca")) options.tlsCa(Path.of(Wire.text(request, "tls_ca")));
    if (request.has("tls_cert")) {
      options.tlsCertificate(Path.of(Wire.text(request, "tls_cert")), Path.of(Wire.text(request, "tls_key")));
    }
    if (request.has("token")) options.token(Wire.text(request, "token"));
    if (request.has("timeout_ms")) options.deadline(Wire.millis(request, "timeout_ms", null));
    clients.put(Wire.text(request, "client"), DuetimeClient.create(options.build()));
    return new JsonObject();
  }

  private DuetimeClient client(JsonObject request) {
    return clients.get(Wire.text(request, "client"));
  }

  // ---- Requests

  private static NewMessage message(ScheduleRequest request) {
    NewMessage.Builder message = NewMessage.builder(request.getTopic())
        .payload(request.getPayload())
        .attributes(request.getAttributesMap())
        .key(request.getKey())
        .onConflict(request.getOnConflict())
        .onlyIfExists(request.getOnlyIfExists())
        .requestId(request.getRequestId())
        .validateOnly(request.getValidateOnly())
        .labels(request.getLabelsMap())
        .orderingKey(request.getOrderingKey())
        .latePolicy(request.getLatePolicy());
    switch (request.getWhenCase()) {
      case DELIVER_TIME -> message.at(instant(request.getDeliverTime()));
      case DELAY -> message.after(duration(request.getDelay()));
      case CIVIL_TIME -> message.when(local(request.getCivilTime()));
      case WHEN_NOT_SET -> {}
    }
    if (request.hasMaxWait()) message.maxWait(duration(request.getMaxWait()));
    if (request.hasTtl()) message.ttl(duration(request.getTtl()));
    if (request.hasExpireTime()) message.expireTime(instant(request.getExpireTime()));
    if (request.hasSpread()) message.spread(duration(request.getSpread()));
    return message.build();
  }

  private static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  private static Duration duration(com.google.protobuf.Duration time) {
    return Duration.ofSeconds(time.getSeconds(), time.getNanos());
  }

  private static When local(CivilTime time) {
    return When.local(time.getLocal(), time.getTimeZone());
  }

  private static When when(RescheduleRequest request) {
    return switch (request.getWhenCase()) {
      case DELIVER_TIME -> When.at(instant(request.getDeliverTime()));
      case DELAY -> When.after(duration(request.getDelay()));
      case CIVIL_TIME -> local(request.getCivilTime());
      case WHEN_NOT_SET -> throw new IllegalArgumentException("a reschedule has a time");
    };
  }

  private static Target target(boolean byKey, TopicKey key, String id) {
    return byKey ? Target.key(key.getTopic(), key.getKey()) : Target.id(id);
  }

  private static Target target(CancelRequest request) {
    return target(request.hasKey(), request.getKey(), request.getMessageId());
  }

  // ---- Answers

  private static <T> JsonObject json(ItemResult<T> result, Function<T, Message> answer) {
    return result.fold(value -> Wire.of("ok", Wire.json(answer.apply(value))), error -> Wire.of("error", Wire.json(error)));
  }

  private static <T> JsonObject json(List<ItemResult<T>> results, Function<T, Message> answer) {
    JsonArray array = new JsonArray();
    for (ItemResult<T> result : results) array.add(json(result, answer));
    return Wire.of("results", array);
  }

  // ---- Ops

  /** Adds a call: the default request of the RPC, and what the client does with it. */
  @SuppressWarnings("unchecked")
  private <Q extends Message> void add(String op, Q prototype, BiFunction<DuetimeClient, Q, Message> call) {
    ops.put(op, request -> {
      Q parsed = (Q) Wire.parse(request.get("request"), prototype.newBuilderForType()).build();
      return Wire.json(call.apply(client(request), parsed));
    });
  }

  /** Adds a call of the admin client. The answer goes into this field of the response. */
  @SuppressWarnings("unchecked")
  private <Q extends Message> void addAdmin(String op, String field, Q prototype, BiFunction<AdminClient, Q, Message> call) {
    ops.put(op, request -> {
      Q parsed = (Q) Wire.parse(request.get("request"), prototype.newBuilderForType()).build();
      JsonObject answer = Wire.json(call.apply(client(request).admin(), parsed));
      return field.isEmpty() ? answer : Wire.of(field, answer);
    });
  }

  @SuppressWarnings("unchecked")
  private <Q extends Message> void addList(
      String op, Q prototype, BiFunction<DuetimeClient, Q, Iterable<? extends Message>> call) {
    ops.put(op, request -> {
      Q parsed = (Q) Wire.parse(request.get("request"), prototype.newBuilderForType()).build();
      int limit = request.has("limit") ? request.get("limit").getAsInt() : Integer.MAX_VALUE;
      JsonArray items = new JsonArray();
      for (Message item : call.apply(client(request), parsed)) {
        items.add(Wire.json(item));
        if (items.size() >= limit) break;
      }
      return Wire.of("items", items);
    });
  }

  private void addMessages() {
    add("schedule", ScheduleRequest.getDefaultInstance(), (client, q) -> client.schedule(message(q)));
    add("cancel", CancelRequest.getDefaultInstance(),
        (client, q) -> client.cancel(target(q), q.getStopRedelivery()).answer());
    add("reschedule", RescheduleRequest.getDefaultInstance(), (client, q) ->
        client.reschedule(target(q.hasKey(), q.getKey(), q.getMessageId()), when(q), q.getEtag()));
    add("get", GetRequest.getDefaultInstance(), (client, q) ->
        client.get(target(q.hasKey(), q.getKey(), q.getMessageId()), q.getView()));
    add("explain", ExplainRequest.getDefaultInstance(), (client, q) ->
        client.explain(target(q.hasKey(), q.getKey(), q.getMessageId())));
    add("pull", PullRequest.getDefaultInstance(), DuetimeClient::pull);
    add("settle", SettleRequest.getDefaultInstance(), (client, q) -> client.settle(q).answer());
    ops.put("server_info", request -> Wire.json(client(request).serverInfo()));
    ops.put("schedule_batch", request -> {
      ScheduleBatchRequest q = Wire.parse(request.get("request"), ScheduleBatchRequest.newBuilder()).build();
      List<NewMessage> messages = q.getMessagesList().stream().map(Calls::message).toList();
      return json(client(request).scheduleBatch(messages), answer -> answer);
    });
    ops.put("cancel_batch", request -> {
      CancelBatchRequest q = Wire.parse(request.get("request"), CancelBatchRequest.newBuilder()).build();
      List<Target> targets = q.getCancelsList().stream().map(Calls::target).toList();
      return json(client(request).cancelBatch(targets, false), result -> result.answer());
    });
  }

  private void addTopics() {
    addAdmin("create_topic", "topic", CreateTopicRequest.getDefaultInstance(), (admin, q) -> admin.createTopic(q.getTopic()));
    addAdmin("get_topic", "topic", GetTopicRequest.getDefaultInstance(), (admin, q) -> admin.getTopic(q.getName()));
    addAdmin("update_topic", "topic", UpdateTopicRequest.getDefaultInstance(), (admin, q) ->
        admin.updateTopic(q.getTopic(), q.getUpdateMask().getPathsList().toArray(new String[0])));
    addAdmin("delete_topic", "", DeleteTopicRequest.getDefaultInstance(),
        (admin, q) -> admin.deleteTopic(q.getName(), q.getForce()));
    addAdmin("pause_topic", "topic", PauseTopicRequest.getDefaultInstance(), (admin, q) -> admin.pauseTopic(q.getName()));
    addAdmin("resume_topic", "topic", ResumeTopicRequest.getDefaultInstance(), (admin, q) -> admin.resumeTopic(q.getName()));
    addAdmin("create_subscription", "subscription", CreateSubscriptionRequest.getDefaultInstance(),
        (admin, q) -> admin.createSubscription(q.getSubscription(), q.getStart()));
    addAdmin("get_subscription", "subscription", GetSubscriptionRequest.getDefaultInstance(),
        (admin, q) -> admin.getSubscription(q.getTopic(), q.getName()));
    addAdmin("update_subscription", "subscription", UpdateSubscriptionRequest.getDefaultInstance(), (admin, q) ->
        admin.updateSubscription(q.getSubscription(), q.getUpdateMask().getPathsList().toArray(new String[0])));
    addAdmin("delete_subscription", "", DeleteSubscriptionRequest.getDefaultInstance(), (admin, q) -> {
      admin.deleteSubscription(q.getTopic(), q.getName());
      return DeleteSubscriptionRequest.getDefaultInstance();
    });
    addAdmin("forecast", "", ForecastRequest.getDefaultInstance(), AdminClient::forecast);
    addAdmin("start_bulk", "operation", StartBulkRequest.getDefaultInstance(), AdminClient::startBulk);
    addAdmin("get_operation", "operation", GetOperationRequest.getDefaultInstance(),
        (admin, q) -> admin.getOperation(q.getName()));
    addAdmin("cancel_operation", "operation", CancelOperationRequest.getDefaultInstance(),
        (admin, q) -> admin.cancelOperation(q.getName()));
  }

  private void addRecurrences() {
    addAdmin("create_recurrence", "recurrence", CreateRecurrenceRequest.getDefaultInstance(),
        (admin, q) -> admin.createRecurrence(q.getRecurrence(), q.getValidateOnly()));
    addAdmin("get_recurrence", "recurrence", GetRecurrenceRequest.getDefaultInstance(),
        (admin, q) -> admin.getRecurrence(q.getName()));
    addAdmin("update_recurrence", "recurrence", UpdateRecurrenceRequest.getDefaultInstance(), AdminClient::updateRecurrence);
    addAdmin("pause_recurrence", "recurrence", PauseRecurrenceRequest.getDefaultInstance(),
        (admin, q) -> admin.pauseRecurrence(q.getName()));
    addAdmin("resume_recurrence", "recurrence", ResumeRecurrenceRequest.getDefaultInstance(),
        (admin, q) -> admin.resumeRecurrence(q.getName()));
    addAdmin("delete_recurrence", "", DeleteRecurrenceRequest.getDefaultInstance(),
        (admin, q) -> admin.deleteRecurrence(q.getName()));
    addAdmin("preview_recurrence", "", PreviewRecurrenceRequest.getDefaultInstance(), AdminClient::previewRecurrence);
  }

  private void addLists() {
    addList("list", ListRequest.getDefaultInstance(), DuetimeClient::list);
    addList("list_topics", ListTopicsRequest.getDefaultInstance(), (client, q) -> client.admin().listTopics(q));
    addList("list_subscriptions", ListSubscriptionsRequest.getDefaultInstance(),
        (client, q) -> client.admin().listSubscriptions(q));
    addList("list_operations", ListOperationsRequest.getDefaultInstance(), (client, q) -> client.admin().listOperations(q));
    addList("list_recurrences", ListRecurrencesRequest.getDefaultInstance(),
        (client, q) -> client.admin().listRecurrences(q));
  }

  private void addStreams() {
    ops.put("stream_open", request -> {
      String name = Wire.text(request, "stream");
      streams.put(name, client(request).openScheduleStream((number, result) -> {
        JsonObject event = json(result, (ScheduleResponse answer) -> answer);
        event.addProperty("event", "result");
        event.addProperty("stream", name);
        event.addProperty("number", number);
        Wire.print(event);
      }));
      return new JsonObject();
    });
    ops.put("stream_send", request -> {
      List<NewMessage> messages = new ArrayList<>();
      for (JsonElement item : request.getAsJsonArray("messages")) {
        messages.add(message(Wire.parse(item, ScheduleRequest.newBuilder()).build()));
      }
      streams.get(Wire.text(request, "stream")).send(messages);
      return new JsonObject();
    });
    ops.put("stream_finish", request -> {
      ScheduleStream stream = streams.remove(Wire.text(request, "stream"));
      JsonElement error = JsonNull.INSTANCE;
      try {
        stream.finish();
      } catch (DuetimeException e) {
        error = Wire.json(e);
      }
      JsonArray unanswered = new JsonArray();
      for (NewMessage message : stream.takeUnanswered()) unanswered.add(Wire.json(message.toProto()));
      JsonObject answer = Wire.of("unanswered", unanswered);
      answer.addProperty("answered", stream.answered());
      answer.add("error", error);
      return answer;
    });
  }

  private void addSubscribers() {
    ops.put("subscriber_start", request -> {
      workers.put(Wire.text(request, "subscriber"), new Worker(request, client(request)));
      return new JsonObject();
    });
    ops.put("subscriber_finish", request -> {
      worker(request).finish(request.get("n").getAsLong(), request);
      return new JsonObject();
    });
    ops.put("subscriber_counts", request -> worker(request).counts());
    ops.put("subscriber_stop", request -> {
      Duration handlers = Wire.millis(request, "handlers_ms", Duration.ofDays(1));
      JsonObject answer = new JsonObject();
      answer.addProperty("clean", worker(request).stop(handlers, Wire.millis(request, "confirm_ms", Duration.ofSeconds(5))));
      return answer;
    });
  }

  private Worker worker(JsonObject request) {
    return workers.get(Wire.text(request, "subscriber"));
  }
}
