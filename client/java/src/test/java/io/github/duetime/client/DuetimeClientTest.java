// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.github.duetime.v1.Failure;
import io.github.duetime.v1.MessageView;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.PullRequest;
import io.github.duetime.v1.RescheduleRequest;
import io.github.duetime.v1.RescheduleResponse;
import io.github.duetime.v1.ScheduleBatchRequest;
import io.github.duetime.v1.ScheduleBatchResponse;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls to a server in this process, which fails as the tests say. */
@Timeout(30)
class DuetimeClientTest {
  private static final NewMessage MESSAGE = NewMessage.builder("orders").after(Duration.ofMinutes(1)).build();

  private static final BackoffOptions FAST = new BackoffOptions(Duration.ofMillis(1), Duration.ofMillis(2), 2);

  private final List<String> requestIds = Collections.synchronizedList(new ArrayList<>());
  private final List<StatusRuntimeException> failures = Collections.synchronizedList(new ArrayList<>());
  private final String name = InProcessServerBuilder.generateName();
  private Server server;
  private DuetimeClient client;

  @BeforeEach
  void start() throws IOException {
    server = InProcessServerBuilder.forName(name).addService(new FakeMessages()).build().start();
    client = open(ClientOptions.builder());
  }

  private DuetimeClient open(ClientOptions.Builder options) {
    return DuetimeClient.on(Connection.of(InProcessChannelBuilder.forName(name).build(), null), options.build());
  }

  private void failNext(int calls) {
    for (int i = 0; i < calls; i++) failures.add(Status.UNAVAILABLE.asRuntimeException());
  }

  @AfterEach
  void stop() {
    client.close();
    server.shutdownNow();
  }

  private final class FakeMessages extends MessagesGrpc.MessagesImplBase {
    private <A> void answer(StreamObserver<A> observer, A answer) {
      if (!failures.isEmpty()) {
        observer.onError(failures.remove(0));
        return;
      }
      observer.onNext(answer);
      observer.onCompleted();
    }

    @Override
    public void schedule(ScheduleRequest request, StreamObserver<ScheduleResponse> observer) {
      requestIds.add(request.getRequestId());
      answer(observer, ScheduleResponse.getDefaultInstance());
    }

    @Override
    public void scheduleBatch(ScheduleBatchRequest request, StreamObserver<ScheduleBatchResponse> observer) {
      ScheduleBatchResponse.Builder response = ScheduleBatchResponse.newBuilder();
      response.addResultsBuilder().getMessageBuilder().setId("m");
      response.addResultsBuilder().setError(Failure.newBuilder().setCode(5).setReason("TOPIC_NOT_FOUND").setField("topic"));
      answer(observer, response.build());
    }

    @Override
    public void reschedule(RescheduleRequest request, StreamObserver<RescheduleResponse> observer) {
      answer(observer, RescheduleResponse.getDefaultInstance());
    }
  }

  @Test
  void aRepeatHasTheSameRequestIdAndANewCallAnother() {
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    client.schedule(MESSAGE);
    client.schedule(MESSAGE);
    assertEquals(3, requestIds.size());
    assertEquals(requestIds.get(0), requestIds.get(1));
    assertEquals(2, new HashSet<>(requestIds).size());
    assertFalse(requestIds.contains(""));
  }

  @Test
  void aCallWhoseRepeatWouldMisleadIsMadeOnce() {
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    Target target = Target.id("m");
    assertThrows(DuetimeException.Unavailable.class, () -> client.reschedule(target, When.after(Duration.ZERO), "etag"));
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    client.reschedule(target, When.after(Duration.ZERO));
    failures.add(Status.UNAVAILABLE.asRuntimeException());
    assertThrows(DuetimeException.Unavailable.class, () -> client.schedule(MESSAGE, Repeat.NEVER));
  }

  @Test
  void aCallIsRepeatedUntilItSucceedsOrHasHadItsTries() {
    failNext(10);
    try (DuetimeClient fast = open(ClientOptions.builder().backoff(FAST))) {
      fast.schedule(MESSAGE);
    }
    assertEquals(11, requestIds.size());
    requestIds.clear();
    failNext(5);
    try (DuetimeClient limited = open(ClientOptions.builder().backoff(FAST).attemptsMax(4))) {
      assertThrows(DuetimeException.Unavailable.class, () -> limited.schedule(MESSAGE));
    }
    assertEquals(4, requestIds.size());
  }

  @Test
  void theLastTriesAreBeforeTheDeadlineHoweverLongTheWaitsAre() {
    failNext(2);
    BackoffOptions hours = new BackoffOptions(Duration.ofHours(1), Duration.ofHours(1), 1);
    try (DuetimeClient slow = open(ClientOptions.builder().backoff(hours).deadline(Duration.ofSeconds(1)))) {
      slow.schedule(MESSAGE);
    }
    assertEquals(3, requestIds.size());
  }

  @Test
  void aClientWithoutBudgetWaitsAndMakesNoTries() {
    failNext(10_000);
    try (DuetimeClient fast = open(ClientOptions.builder().backoff(FAST).deadline(Duration.ofSeconds(3)))) {
      assertThrows(DuetimeException.Unavailable.class, () -> fast.schedule(MESSAGE));
      // 100 repeats, and one more for each second.
      assertTrue(requestIds.size() > 100 && requestIds.size() <= 105, requestIds.size() + " tries");
      failures.clear();
      failNext(1);
      fast.schedule(MESSAGE);  // it waits for its token
    }
  }

  @Test
  void repeatsThatSucceedCostNoBudget() {
    try (DuetimeClient fast = open(ClientOptions.builder().backoff(FAST))) {
      for (int call = 0; call < 300; call++) {
        failNext(1);
        fast.schedule(MESSAGE);
      }
    }
    assertEquals(600, requestIds.size());
  }

  @Test
  void aCallThatWaitsForItsRepeatEndsWithTheClient() throws Exception {
    failNext(1);
    DuetimeClient closed = open(ClientOptions.builder());
    CompletableFuture<?> call = closed.scheduleAsync(MESSAGE);
    while (!failures.isEmpty()) Thread.sleep(1);
    closed.close();
    ExecutionException end = assertThrows(ExecutionException.class, () -> call.get(10, TimeUnit.SECONDS));
    assertTrue(end.getCause() instanceof DuetimeException.Unavailable, end.toString());
  }

  @Test
  void repeatsThatTheServerRefusesCostNoBudget() {
    try (DuetimeClient fast = open(ClientOptions.builder().backoff(FAST))) {
      for (int call = 0; call < 300; call++) {
        failNext(1);
        failures.add(Status.NOT_FOUND.asRuntimeException());
        assertThrows(DuetimeException.NotFound.class, () -> fast.schedule(MESSAGE));
      }
    }
    assertEquals(600, requestIds.size());
  }

  @Test
  void anErrorHasItsDetails() {
    failures.add(StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(8).setMessage("full")
        .addDetails(Any.pack(ErrorInfo.newBuilder().setReason("TOPIC_FULL").putMetadata("topic", "orders").build()))
        .addDetails(Any.pack(BadRequest.newBuilder()
            .addFieldViolations(BadRequest.FieldViolation.newBuilder().setField("topic")).build()))
        .addDetails(Any.pack(RetryInfo.newBuilder()
            .setRetryDelay(com.google.protobuf.Duration.newBuilder().setNanos(250_000_000)).build()))
        .build()));
    DuetimeException error = assertThrows(DuetimeException.ResourceExhausted.class, () -> client.schedule(MESSAGE));
    assertEquals("full", error.getMessage());
    assertEquals("TOPIC_FULL", error.reason());
    assertEquals("orders", error.metadata().get("topic"));
    assertEquals("topic", error.fieldViolations().get(0).field());
    assertEquals(Duration.ofMillis(250), error.retryDelay().orElseThrow());
    assertTrue(List.of(error.getStackTrace()).stream().anyMatch(f -> f.getMethodName().contains("anErrorHasItsDetails")));
  }

  @Test
  void aBatchHasAResultForEachItem() {
    List<ItemResult<ScheduleResponse>> results = client.scheduleBatch(List.of(MESSAGE, MESSAGE));
    assertEquals("m", results.get(0).get().getMessage().getId());
    assertThrows(DuetimeException.NotFound.class, () -> results.get(1).get());
    assertEquals("TOPIC_NOT_FOUND", results.get(1).error().orElseThrow().reason());
    assertThrows(DuetimeException.class, () -> client.scheduleBatch(List.of(MESSAGE)), "2 results for 1 item");
  }

  @Test
  void aBadArgumentIsTheErrorOfTheFuture() {
    Target nameless = Target.id(null);
    PullRequest tooLong = PullRequest.newBuilder()
        .setWait(com.google.protobuf.Duration.newBuilder().setSeconds(Long.MAX_VALUE).setNanos(1_000_000_000)).build();
    Map<String, Supplier<CompletableFuture<?>>> calls = Map.of(
        "schedule", () -> client.scheduleAsync(null),
        "scheduleBatch", () -> client.scheduleBatchAsync(Collections.singletonList(null), Repeat.SAFELY),
        "cancel", () -> client.cancelAsync(nameless, false),
        "cancelBatch", () -> client.cancelBatchAsync(List.of(nameless), false),
        "reschedule", () -> client.rescheduleAsync(Target.id("x"), When.after(null), ""),
        "get", () -> client.getAsync(Target.id("x"), MessageView.UNRECOGNIZED),
        "explain", () -> client.explainAsync(nameless),
        "pull", () -> client.pullAsync(tooLong),
        "settle", () -> client.settleAsync(null));
    calls.forEach((call, start) -> {
      CompletableFuture<?> future = assertDoesNotThrow(start::get, call);
      Throwable error = assertThrows(ExecutionException.class, () -> future.get(5, TimeUnit.SECONDS), call).getCause();
      assertInstanceOf(DuetimeException.InvalidArgument.class, error, call);
    });
    // Each of these methods is in the table.
    Set<String> names = new HashSet<>();
    for (Method method : DuetimeClient.class.getMethods()) {
      if (method.getName().endsWith("Async")) names.add(method.getName().replace("Async", ""));
    }
    assertEquals(names, calls.keySet());
  }

  @Test
  void badOptionsAreErrorsOfTheLibrary() {
    assertThrows(DuetimeException.InvalidArgument.class, () -> DuetimeClient.connect(""));
    assertThrows(DuetimeException.InvalidArgument.class, () -> DuetimeClient.connect("dns://a b"));
    for (String file : List.of("pom.xml", "no-such-file")) {
      ClientOptions options = ClientOptions.builder().tlsCa(Path.of(file)).build();
      assertThrows(DuetimeException.InvalidArgument.class, () -> DuetimeClient.create(options), file);
    }
  }

  @Test
  void aTokenNeedsTls() {
    ClientOptions.Builder options = ClientOptions.builder().token("secret");
    assertThrows(DuetimeException.InvalidArgument.class, options::build);
    options.tls().build();
  }
}
