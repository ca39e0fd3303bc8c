// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.github.duetime.v1.CallStreamRequest;
import io.github.duetime.v1.CallStreamResponse;
import io.github.duetime.v1.CancelResponse;
import io.github.duetime.v1.Failure;
import io.github.duetime.v1.GetResponse;
import io.github.duetime.v1.MessageView;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.RescheduleResponse;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.github.duetime.v1.StreamedAnswer;
import io.github.duetime.v1.StreamedCall;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Context;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Calls that share a stream, to a server in this process that answers as the tests say. */
@Timeout(30)
class GathererTest {
  private static final Metadata.Key<String> AUTHORIZATION = key("authorization");
  private static final Metadata.Key<String> TRACEPARENT = key("traceparent");
  private static final BackoffOptions FAST = new BackoffOptions(Duration.ofMillis(1), Duration.ofMillis(2), 2);

  private final String name = InProcessServerBuilder.generateName();
  private final BlockingQueue<FakeStream> streams = new LinkedBlockingQueue<>();
  private final BlockingQueue<String> alone = new LinkedBlockingQueue<>();
  private final List<Metadata> headers = Collections.synchronizedList(new ArrayList<>());
  private final ExecutorService threads = Executors.newCachedThreadPool();
  // Answers the unary calls, and what a new stream does at once.
  private volatile Consumer<StreamObserver<ScheduleResponse>> unary = observer -> succeed(observer, ScheduleResponse.getDefaultInstance());
  private volatile Consumer<FakeStream> onOpen = stream -> {};
  private Server server;
  private DuetimeClient client;

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  @BeforeEach
  void start() throws IOException {
    server = InProcessServerBuilder.forName(name).addService(new FakeMessages()).intercept(new KeepHeaders()).build().start();
    client = open(ClientOptions.builder(), null);
  }

  @AfterEach
  void stop() {
    client.close();
    server.shutdownNow();
    threads.shutdownNow();
  }

  private DuetimeClient open(ClientOptions.Builder options, Supplier<String> token, ClientInterceptor... interceptors) {
    return DuetimeClient.on(
        Connection.of(InProcessChannelBuilder.forName(name).intercept(interceptors).build(), token), options.build());
  }

  private static <A> void succeed(StreamObserver<A> observer, A answer) {
    observer.onNext(answer);
    observer.onCompleted();
  }

  private final class KeepHeaders implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(ServerCall<Q, A> call, Metadata metadata, ServerCallHandler<Q, A> next) {
      headers.add(metadata);
      return next.startCall(call, metadata);
    }
  }

  private final class FakeMessages extends MessagesGrpc.MessagesImplBase {
    @Override
    public StreamObserver<CallStreamRequest> callStream(StreamObserver<CallStreamResponse> observer) {
      FakeStream stream = new FakeStream(observer);
      streams.add(stream);
      onOpen.accept(stream);
      return stream;
    }

    @Override
    public void schedule(ScheduleRequest request, StreamObserver<ScheduleResponse> observer) {
      alone.add(request.getKey());
      unary.accept(observer);
    }
  }

  /** The server's side of a stream. */
  private static final class FakeStream implements StreamObserver<CallStreamRequest> {
    final StreamObserver<CallStreamResponse> observer;
    final BlockingQueue<CallStreamRequest> frames = new LinkedBlockingQueue<>();
    final BlockingQueue<StreamedCall> calls = new LinkedBlockingQueue<>();
    final CountDownLatch ended = new CountDownLatch(1);

    FakeStream(StreamObserver<CallStreamResponse> observer) {
      this.observer = observer;
    }

    @Override
    public void onNext(CallStreamRequest frame) {
      frames.add(frame);
      calls.addAll(frame.getCallsList());
    }

    @Override
    public void onError(Throwable error) {
      ended.countDown();
    }

    @Override
    public void onCompleted() {
      ended.countDown();
    }

    StreamedCall take() throws InterruptedException {
      StreamedCall call = calls.poll(10, TimeUnit.SECONDS);
      if (call == null) throw new IllegalStateException("no call came");
      return call;
    }

    void answer(StreamedAnswer.Builder... answers) {
      CallStreamResponse.Builder response = CallStreamResponse.newBuilder();
      for (StreamedAnswer.Builder answer : answers) response.addAnswers(answer);
      observer.onNext(response.build());
    }

    void end(StatusRuntimeException error, long taken) {
      observer.onNext(CallStreamResponse.newBuilder().setCallsTaken(taken).build());
      observer.onError(error);
    }
  }

  private static StreamedAnswer.Builder accepted(StreamedCall call) {
    StreamedAnswer.Builder answer = StreamedAnswer.newBuilder().setNumber(call.getNumber());
    answer.getScheduleBuilder().getMessageBuilder().setId(call.getSchedule().getKey());
    return answer;
  }

  private static NewMessage.Builder message(String key) {
    return NewMessage.builder("orders").key(key).after(Duration.ofMinutes(1));
  }

  private CompletableFuture<ScheduleResponse> schedule(String key) {
    return client.scheduleAsync(message(key).build());
  }

  private FakeStream nextStream() throws InterruptedException {
    FakeStream stream = streams.poll(10, TimeUnit.SECONDS);
    if (stream == null) throw new IllegalStateException("no stream was opened");
    return stream;
  }

  private static String idOf(Future<ScheduleResponse> call) throws Exception {
    return call.get(10, TimeUnit.SECONDS).getMessage().getId();
  }

  private static DuetimeException errorOf(Future<?> call) {
    ExecutionException end = assertThrows(ExecutionException.class, () -> call.get(10, TimeUnit.SECONDS));
    return (DuetimeException) end.getCause();
  }

  private static StatusRuntimeException error(Status.Code code, String reason) {
    return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(code.value())
        .addDetails(Any.pack(ErrorInfo.newBuilder().setReason(reason).build())).build());
  }

  /** Opens the stream and makes one call on it, so that the next one is sent at once. */
  private FakeStream opened() throws Exception {
    CompletableFuture<ScheduleResponse> first = schedule("first");
    FakeStream stream = nextStream();
    stream.answer(accepted(stream.take()));
    assertEquals("first", idOf(first));
    return stream;
  }

  @Test
  void callsOfManyThreadsGetTheirOwnAnswersInAnyOrder() throws Exception {
    List<Future<ScheduleResponse>> calls = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      NewMessage message = message("k" + i).build();
      calls.add(i % 2 == 0 ? threads.submit(() -> client.schedule(message)) : client.scheduleAsync(message));
    }
    FakeStream stream = nextStream();
    List<StreamedCall> taken = new ArrayList<>();
    while (taken.size() < calls.size()) taken.add(stream.take());
    Collections.reverse(taken);
    for (int i = 0; i < taken.size(); i += 20) {
      stream.answer(taken.subList(i, i + 20).stream().map(GathererTest::accepted).toArray(StreamedAnswer.Builder[]::new));
    }
    for (int i = 0; i < calls.size(); i++) assertEquals("k" + i, idOf(calls.get(i)));
    assertTrue(alone.isEmpty() && streams.isEmpty());
  }

  @Test
  void eachKindOfCallHasItsAnswer() throws Exception {
    Target target = Target.id("m");
    Map<StreamedCall.RequestCase, CompletableFuture<?>> calls = new LinkedHashMap<>();
    calls.put(StreamedCall.RequestCase.SCHEDULE, schedule("k"));
    calls.put(StreamedCall.RequestCase.CANCEL, client.cancelAsync(target, true));
    calls.put(StreamedCall.RequestCase.RESCHEDULE, client.rescheduleAsync(target, When.after(Duration.ZERO), "e"));
    calls.put(StreamedCall.RequestCase.GET, client.getAsync(target, MessageView.MESSAGE_VIEW_FULL));
    FakeStream stream = nextStream();
    for (StreamedCall.RequestCase kind : calls.keySet()) {
      StreamedCall call = stream.take();
      assertEquals(kind, call.getRequestCase());
      assertTrue(call.getTimeout().getSeconds() > 0 && call.getTimeout().getSeconds() <= 10, call.toString());
      StreamedAnswer.Builder answer = StreamedAnswer.newBuilder().setNumber(call.getNumber());
      switch (kind) {
        case CANCEL -> answer.setCancel(CancelResponse.newBuilder().setOutcome(CancelResponse.Outcome.OUTCOME_CANCELLED));
        case RESCHEDULE -> answer.setReschedule(RescheduleResponse.getDefaultInstance());
        case GET -> answer.setGet(GetResponse.getDefaultInstance());
        default -> answer.setSchedule(ScheduleResponse.getDefaultInstance());
      }
      stream.answer(answer);
    }
    for (CompletableFuture<?> call : calls.values()) call.get(10, TimeUnit.SECONDS);
    CompletableFuture<ScheduleResponse> crossed = schedule("x");
    stream.answer(StreamedAnswer.newBuilder().setNumber(stream.take().getNumber()).setGet(GetResponse.getDefaultInstance()));
    assertEquals(Status.Code.INTERNAL, errorOf(crossed).code());
  }

  @Test
  void aLoneCallLeavesAtOnceAndThoseThatWaitedLeaveInOneFrame() throws Exception {
    CountDownLatch opens = new CountDownLatch(1);
    onOpen = stream -> awaitQuietly(opens);
    List<CompletableFuture<ScheduleResponse>> calls = new ArrayList<>();
    for (int i = 0; i < 1_500; i++) calls.add(schedule("k" + i));
    opens.countDown();
    FakeStream stream = nextStream();
    List<Integer> sizes = new ArrayList<>();
    for (int calledBack = 0; calledBack < 1_500; ) {
      CallStreamRequest frame = stream.frames.poll(10, TimeUnit.SECONDS);
      sizes.add(frame.getCallsCount());
      calledBack += frame.getCallsCount();
      stream.answer(frame.getCallsList().stream().map(GathererTest::accepted).toArray(StreamedAnswer.Builder[]::new));
    }
    assertTrue(sizes.size() <= 4 && Collections.max(sizes) <= 1_000, sizes.toString());
    for (CompletableFuture<ScheduleResponse> call : calls) idOf(call);
    CompletableFuture<ScheduleResponse> lone = schedule("lone");
    assertEquals(1, stream.frames.poll(10, TimeUnit.SECONDS).getCallsCount());
    lone.cancel(true);
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Test
  void aCallThatWasCancelledInTimeIsNotSentAndALaterOneHasItsAnswerDropped() throws Exception {
    CountDownLatch opens = new CountDownLatch(1);
    onOpen = stream -> awaitQuietly(opens);
    CompletableFuture<ScheduleResponse> opener = schedule("opener");
    FakeStream stream = nextStream();
    StreamedCall sent = stream.calls.poll(200, TimeUnit.MILLISECONDS);
    assertNull(sent); // the server has not accepted the stream
    opener.cancel(true);
    CompletableFuture<ScheduleResponse> before = schedule("before");
    before.cancel(true);
    CompletableFuture<ScheduleResponse> after = schedule("after");
    opens.countDown();
    List<StreamedCall> taken = new ArrayList<>();
    do taken.add(stream.take());
    while (!taken.get(taken.size() - 1).getSchedule().getKey().equals("after"));
    assertTrue(taken.stream().noneMatch(call -> call.getSchedule().getKey().equals("before")));
    after.cancel(true);
    stream.answer(accepted(taken.get(taken.size() - 1)), StreamedAnswer.newBuilder().setNumber(1_000));
    assertTrue(after.isCancelled());
    CompletableFuture<ScheduleResponse> next = schedule("next");
    stream.answer(accepted(stream.take()));
    assertEquals("next", idOf(next));
  }

  @Test
  void theDeadlineIsKeptOnAStreamThatHangs() throws Exception {
    client.close();
    client = open(ClientOptions.builder().deadline(Duration.ofMillis(300)), null);
    CompletableFuture<ScheduleResponse> call = schedule("k");
    FakeStream stream = nextStream();
    stream.take();
    assertEquals(Status.Code.DEADLINE_EXCEEDED, errorOf(call).code());
    assertThrows(DuetimeException.DeadlineExceeded.class, () -> client.schedule(message("k").build()));
  }

  @Test
  void aCallEndsWithItsContextAndTheStreamGoesOn() throws Exception {
    Context.CancellableContext context = Context.current().withCancellation();
    CompletableFuture<ScheduleResponse> cancelled = context.call(() -> schedule("cancelled"));
    FakeStream stream = nextStream();
    stream.take();
    context.cancel(null);
    assertEquals(Status.Code.CANCELLED, errorOf(cancelled).code());
    CompletableFuture<ScheduleResponse> next = schedule("next");
    stream.answer(accepted(stream.take()));
    assertEquals("next", idOf(next));
  }

  @Test
  void theErrorOfACallIsThatOfAUnaryCall() throws Exception {
    FakeStream stream = opened();
    List<Failure> failures = List.of(
        Failure.newBuilder().setCode(5).setMessage("no topic").setReason("TOPIC_NOT_FOUND").putMetadata("topic", "t").build(),
        Failure.newBuilder().setCode(3).setMessage("bad").setReason("INVALID_TOPIC").setField("topic").build(),
        Failure.newBuilder().setCode(8).setMessage("full").setReason("TOPIC_FULL")
            .setRetryDelay(com.google.protobuf.Duration.newBuilder().setNanos(250_000_000)).build(),
        Failure.newBuilder().setCode(10).setMessage("another etag").setReason("ETAG_MISMATCH").build(),
        Failure.newBuilder().setCode(77).setMessage("a code of tomorrow").build());
    for (Failure failure : failures) {
      CompletableFuture<ScheduleResponse> call = schedule("k");
      stream.answer(StreamedAnswer.newBuilder().setNumber(stream.take().getNumber()).setError(failure));
      DuetimeException shared = errorOf(call);
      unary = observer -> observer.onError(statusOf(failure));
      try (DuetimeClient separate = open(ClientOptions.builder().separateCalls(true), null)) {
        DuetimeException own = errorOf(separate.scheduleAsync(message("k").build()));
        assertEquals(own.getClass(), shared.getClass());
        assertEquals(own.code(), shared.code());
        assertEquals(own.getMessage(), shared.getMessage());
        assertEquals(own.reason(), shared.reason());
        assertEquals(own.metadata(), shared.metadata());
        assertEquals(own.fieldViolations(), shared.fieldViolations());
        assertEquals(own.retryDelay(), shared.retryDelay());
      }
    }
  }

  private static StatusRuntimeException statusOf(Failure failure) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(Math.min(failure.getCode(), 17)).setMessage(failure.getMessage());
    if (failure.getCode() > 16) return Status.UNKNOWN.withDescription(failure.getMessage()).asRuntimeException();
    status.addDetails(Any.pack(
        ErrorInfo.newBuilder().setReason(failure.getReason()).putAllMetadata(failure.getMetadataMap()).build()));
    if (!failure.getField().isEmpty()) {
      status.addDetails(Any.pack(BadRequest.newBuilder().addFieldViolations(BadRequest.FieldViolation.newBuilder()
          .setField(failure.getField()).setDescription(failure.getMessage())).build()));
    }
    if (failure.hasRetryDelay()) {
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(failure.getRetryDelay()).build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  @Test
  void afterABreakOnlyCallsThatMayBeRepeatedAreMadeAgain() throws Exception {
    client.close();
    client = open(ClientOptions.builder().backoff(FAST), null);
    for (String end : List.of("error", "ok")) {
      CompletableFuture<RescheduleResponse> once = client.rescheduleAsync(Target.id("m"), When.after(Duration.ZERO), "etag");
      FakeStream stream = nextStream();
      stream.take();
      CompletableFuture<CancelResult> cancel = client.cancelAsync(Target.id("m"), false);
      stream.take();
      if (end.equals("ok")) stream.observer.onCompleted();
      else stream.observer.onError(Status.UNAVAILABLE.asRuntimeException());
      assertEquals(Status.Code.UNAVAILABLE, errorOf(once).code());
      stream = nextStream();
      stream.answer(StreamedAnswer.newBuilder().setNumber(stream.take().getNumber()).setCancel(CancelResponse.getDefaultInstance()));
      assertTrue(cancel.get(10, TimeUnit.SECONDS).triedBefore());
      stream.observer.onError(Status.UNAVAILABLE.asRuntimeException());
    }
  }

  @Test
  void callsThatTheServerDidNotTakeAreMadeAgainWhateverTheyDo() throws Exception {
    for (int taken : new int[] {1, 0}) {
      CompletableFuture<RescheduleResponse> first = client.rescheduleAsync(Target.id("a"), When.after(Duration.ZERO), "etag");
      FakeStream stream = nextStream();
      stream.take();
      CompletableFuture<RescheduleResponse> second = client.rescheduleAsync(Target.id("b"), When.after(Duration.ZERO), "etag");
      stream.take();
      stream.end(error(Status.Code.UNAVAILABLE, "DRAINING"), taken);
      stream = nextStream();
      if (taken == 1) assertEquals("DRAINING", errorOf(first).reason());
      for (CompletableFuture<RescheduleResponse> call : taken == 1 ? List.of(second) : List.of(first, second)) {
        StreamedCall again = stream.take();
        assertEquals(call == first ? "a" : "b", again.getReschedule().getMessageId());
        stream.answer(
            StreamedAnswer.newBuilder().setNumber(again.getNumber()).setReschedule(RescheduleResponse.getDefaultInstance()));
        call.get(10, TimeUnit.SECONDS);
      }
      assertEquals(1, stream.frames.poll().getCalls(0).getNumber());
      stream.observer.onCompleted();
    }
  }

  @Test
  void aStreamThatEndsBecauseItsMemberLeadsNoMoreMayHaveBegunItsCalls() throws Exception {
    CompletableFuture<RescheduleResponse> first = client.rescheduleAsync(Target.id("a"), When.after(Duration.ZERO), "etag");
    FakeStream stream = nextStream();
    stream.answer(StreamedAnswer.newBuilder().setNumber(stream.take().getNumber()).setReschedule(RescheduleResponse.getDefaultInstance()));
    first.get(10, TimeUnit.SECONDS);
    CompletableFuture<RescheduleResponse> second = client.rescheduleAsync(Target.id("b"), When.after(Duration.ZERO), "etag");
    stream.take();
    stream.end(error(Status.Code.UNAVAILABLE, "NOT_LEADER"), 2);
    assertEquals(Status.Code.UNAVAILABLE, errorOf(second).code());
    assertEquals("", errorOf(second).reason());
  }

  @Test
  void aServerThatRefusesTheStreamGetsCallsOneByOne() throws Exception {
    List<StatusRuntimeException> refusals =
        List.of(Status.UNIMPLEMENTED.asRuntimeException(), error(Status.Code.RESOURCE_EXHAUSTED, "STREAM_LIMIT"));
    for (StatusRuntimeException refusal : refusals) {
      onOpen = stream -> stream.observer.onError(refusal);
      try (DuetimeClient refused = open(ClientOptions.builder(), null)) {
        for (int i = 0; i < 3; i++) refused.schedule(message("k" + i).build());
      }
      assertEquals(1, streams.size(), refusal.toString()); // it is not tried again at once
      assertEquals(List.of("k0", "k1", "k2"), List.of(alone.take(), alone.take(), alone.take()));
      streams.clear();
    }
  }

  @Test
  void largeRequestsAndSeparateCallsGoAlone() throws Exception {
    client.schedule(message("large").payload(ByteString.copyFrom(new byte[64 << 10])).build());
    try (DuetimeClient separate = open(ClientOptions.builder().separateCalls(true), null)) {
      separate.schedule(message("separate").build());
    }
    assertEquals(List.of("large", "separate"), List.of(alone.take(), alone.take()));
    assertTrue(streams.isEmpty());
  }

  @Test
  void aNewTokenOpensAnotherStream() throws Exception {
    AtomicReference<String> token = new AtomicReference<>("a");
    client.close();
    client = open(ClientOptions.builder(), token::get);
    FakeStream old = opened();
    CompletableFuture<ScheduleResponse> open = schedule("open");
    StreamedCall before = old.take();
    token.set("b");
    CompletableFuture<ScheduleResponse> next = schedule("next");
    FakeStream fresh = nextStream();
    assertTrue(old.ended.await(10, TimeUnit.SECONDS));
    fresh.answer(accepted(fresh.take()));
    assertEquals("next", idOf(next));
    old.answer(accepted(before));
    old.observer.onCompleted();
    assertEquals("open", idOf(open));
    assertEquals(List.of("Bearer a", "Bearer b"), headers.stream().map(each -> each.get(AUTHORIZATION)).toList());
  }

  @Test
  void eachCallHasItsTraceContext() throws Exception {
    AtomicReference<Map<String, String>> trace = new AtomicReference<>(Map.of("traceparent", "00-1", "tracestate", "a=1"));
    client.close();
    client = open(ClientOptions.builder().traceContext(trace::get), null, new AddTrace());
    schedule("k");
    FakeStream stream = nextStream();
    StreamedCall call = stream.take();
    assertEquals(List.of("00-1", "a=1"), List.of(call.getTraceparent(), call.getTracestate()));
    trace.set(null); // throws
    schedule("k");
    assertEquals("", stream.take().getTraceparent());
    trace.set(Map.of("traceparent", "00-2", "baggage", "b"));
    client.schedule(message("large").payload(ByteString.copyFrom(new byte[64 << 10])).build());
    assertNull(headers.get(0).get(TRACEPARENT)); // of the stream
    List<String> large = new ArrayList<>();
    headers.get(1).getAll(TRACEPARENT).forEach(large::add);
    assertTrue(large.contains("00-2"), large.toString());
  }

  @Test
  void callsToWhichAnotherLibraryAddsItsTraceContextGoAlone() {
    client.close();
    client = open(ClientOptions.builder(), null, new AddTrace());
    for (int i = 0; i < 3; i++) client.schedule(message("k" + i).build());
    assertEquals(3, alone.size());
    assertEquals(3, headers.stream().filter(each -> "00-added".equals(each.get(TRACEPARENT))).count());
  }

  /** As the OpenTelemetry agent does. */
  private static final class AddTrace implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
        @Override
        public void start(Listener<A> listener, Metadata metadata) {
          metadata.put(TRACEPARENT, "00-added");
          super.start(listener, metadata);
        }
      };
    }
  }

  @Test
  void aContinuationMayBlock() throws Exception {
    FakeStream stream = opened();
    CompletableFuture<ScheduleResponse> second = schedule("second");
    CompletableFuture<String> first = schedule("first").thenApply(
        answer -> second.join().getMessage().getId() + client.schedule(message("third").build()).getMessage().getId());
    StreamedCall later = stream.take();
    stream.answer(accepted(stream.take()), accepted(later));
    stream.answer(accepted(stream.take()));
    assertEquals("secondthird", first.get(10, TimeUnit.SECONDS));
  }

  @Test
  void callsEndWithTheClient() throws Exception {
    CompletableFuture<ScheduleResponse> sent = schedule("k");
    nextStream().take();
    client.close();
    for (CompletableFuture<ScheduleResponse> call : List.of(sent, schedule("late"))) {
      assertEquals(Status.Code.UNAVAILABLE, errorOf(call).code());
    }
    assertNotEquals(0, headers.size());
  }
}
