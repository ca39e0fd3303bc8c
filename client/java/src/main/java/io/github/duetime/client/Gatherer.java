// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Message;
import io.github.duetime.v1.CallStreamRequest;
import io.github.duetime.v1.CallStreamResponse;
import io.github.duetime.v1.CancelRequest;
import io.github.duetime.v1.GetRequest;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.RescheduleRequest;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.StreamedAnswer;
import io.github.duetime.v1.StreamedCall;
import io.grpc.CallOptions;
import io.grpc.ClientStreamTracer;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.Deque;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Makes the calls Schedule, Cancel, Reschedule and Get of all threads on one stream, because that costs both sides less. Each
 * call has the answer or the error that it has by itself. Thread-safe.
 *
 * <p>Model: calls wait in a queue. The thread that adds a call sends everything that waits as one frame, if the connection has
 * written the frame before; otherwise the thread that learns of that write does. So a lone call leaves at once, and a frame
 * grows with the load, without a timer and without a thread.
 */
final class Gatherer {
  private static final int FRAME_CALLS_MAX = 1_000;
  private static final int FRAME_BYTES_MAX = 1 << 20;
  // A larger request gains nothing.
  private static final int CALL_BYTES_MAX = 64 << 10;
  // After the server has refused the stream, calls are made one by one for this long.
  private static final long REFUSED_NANOS = TimeUnit.SECONDS.toNanos(10);
  // Before another stream, if the server ended one and had taken none of its calls.
  private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  private static final Metadata.Key<String> TRACEPARENT = Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> TRACESTATE = Metadata.Key.of("tracestate", Metadata.ASCII_STRING_MARSHALLER);

  private final Connection connection;
  private final boolean knowsTraces;
  private final Deque<Attempt<?, ?>> waiting = new ConcurrentLinkedDeque<>();
  // Streams that have ended, until the sender has seen their end.
  private final Queue<Stream> ended = new ConcurrentLinkedQueue<>();
  private volatile long refusedUntil = System.nanoTime();
  // Something outside this library adds a trace context to each call, and one stream would have only one of them.
  private volatile boolean traced;

  // Not zero: a thread is the sender. Others add one, so that the sender looks again.
  private final AtomicInteger sending = new AtomicInteger();
  // Only the sender uses the fields below.
  private Stream stream;
  private long pausedUntil = System.nanoTime();

  /** {@code knowsTraces}: the attempts bring their own trace contexts. */
  Gatherer(Connection connection, boolean knowsTraces) {
    this.connection = connection;
    this.knowsTraces = knowsTraces;
  }

  /** Returns true if the stream can make this call. */
  boolean takes(Message request) {
    return isStreamed(request) && request.getSerializedSize() <= CALL_BYTES_MAX && !traced
        && System.nanoTime() - refusedUntil >= 0 && connection.maySend();
  }

  private static boolean isStreamed(Message request) {
    return request instanceof ScheduleRequest || request instanceof CancelRequest || request instanceof RescheduleRequest
        || request instanceof GetRequest;
  }

  /** Sends a call that {@link #takes} allows. It ends at its deadline, and when the caller's context of gRPC ends. */
  void send(Attempt<?, ?> attempt) {
    attempt.answer.orTimeout(attempt.end - System.nanoTime(), TimeUnit.NANOSECONDS);
    Context context = Context.current();
    if (context != Context.ROOT) {
      Context.CancellationListener onCancel =
          cancelled -> fail(attempt, DuetimeException.of(Contexts.statusFromCancelled(cancelled), null));
      context.addListener(onCancel, Runnable::run);
      attempt.answer.whenComplete((answer, error) -> context.removeListener(onCancel));
    }
    waiting.add(attempt);
    send();
  }

  private void send() {
    if (sending.getAndIncrement() == 0) sendAsSender();
  }

  /** Sends until no other thread has added a call since. The caller has changed `sending` from zero to one. */
  private void sendAsSender() {
    for (int seen = sending.get(); seen != 0; seen = sending.addAndGet(-seen)) {
      try {
        sendFrames();
      } catch (Throwable e) {
        DuetimeException error = DuetimeException.of(Status.Code.INTERNAL, "cannot send a call: " + e, e);
        if (stream != null && stream.requests != null) stream.requests.cancel(error.getMessage(), e);
        stream = null;
        for (Attempt<?, ?> next = waiting.poll(); next != null; next = waiting.poll()) fail(next, error);
      }
    }
  }

  private void sendFrames() {
    while (true) {
      for (Stream over = ended.poll(); over != null; over = ended.poll()) settle(over);
      if (waiting.isEmpty() || System.nanoTime() - pausedUntil < 0) return;
      String token = connection.token();
      if (stream != null && !Objects.equals(stream.token, token)) {
        stream.requests.onCompleted(); // its answers still come
        stream = null;
      }
      if (stream == null) {
        stream = new Stream(token);
        Context.ROOT.run(stream::open); // the stream outlives the context of this call
      }
      if (!stream.requests.isReady()) return;
      stream.ready = true;
      if (traced) {
        stream.requests.onCompleted();
        stream = null;
        sendAllAlone();
        return;
      }
      stream.sendFrame();
    }
  }

  private void sendAllAlone() {
    for (Attempt<?, ?> next = waiting.poll(); next != null; next = waiting.poll()) next.sendAlone(connection.channel());
  }

  /** Decides what becomes of the calls of a stream that has ended. */
  private void settle(Stream over) {
    // Of a call, this reason says that it changed nothing. The stream may have begun the call.
    boolean begun = over.answered && over.error.reason().equals("NOT_LEADER");
    DuetimeException error = begun ? DuetimeException.of(Status.Code.UNAVAILABLE, over.error.getMessage()) : over.error;
    boolean refused = error.code() == Status.Code.UNIMPLEMENTED || error.reason().equals("STREAM_LIMIT")
        || error.reason().equals("BATCH_TOO_LARGE");
    if (refused) refusedUntil = System.nanoTime() + REFUSED_NANOS;
    // Without a number from the server, each call may have been taken, unless the server never opened the stream.
    long taken = over.taken >= 0 ? over.taken : refused && !over.answered ? 0 : Long.MAX_VALUE;
    TreeMap<Long, Attempt<?, ?>> open = new TreeMap<>(over.open);
    open.headMap(taken, true).values().forEach(attempt -> fail(attempt, error));
    Map<Long, Attempt<?, ?>> untouched = open.tailMap(taken, false);
    open.tailMap(taken, false).descendingMap().values().forEach(waiting::addFirst);
    if (stream == over) {
      stream = null;
      if (!over.ready && !refused) {
        for (Attempt<?, ?> next = waiting.poll(); next != null; next = waiting.poll()) fail(next, error);
      }
    }
    if (refused) {
      sendAllAlone();
    } else if (taken == 0 && !untouched.isEmpty()) {
      pausedUntil = System.nanoTime() + PAUSE_NANOS;
      CompletableFuture.delayedExecutor(PAUSE_NANOS, TimeUnit.NANOSECONDS).execute(this::send);
    }
  }

  private static void fail(Attempt<?, ?> attempt, DuetimeException error) {
    attempt.answer.completeExceptionally(error);
  }

  private static StreamedCall callOf(long number, Attempt<?, ?> attempt, long left) {
    StreamedCall.Builder call = StreamedCall.newBuilder().setNumber(number).setTimeout(Times.toProto(Duration.ofNanos(left)));
    attempt.trace.forEach((name, value) -> {
      if (name.equals("traceparent")) call.setTraceparent(value);
      else if (name.equals("tracestate")) call.setTracestate(value);
    });
    if (attempt.request instanceof ScheduleRequest schedule) call.setSchedule(schedule);
    else if (attempt.request instanceof CancelRequest cancel) call.setCancel(cancel);
    else if (attempt.request instanceof RescheduleRequest reschedule) call.setReschedule(reschedule);
    else if (attempt.request instanceof GetRequest get) call.setGet(get);
    return call.build();
  }

  private static Object valueOf(StreamedAnswer answer) {
    return switch (answer.getAnswerCase()) {
      case SCHEDULE -> answer.getSchedule();
      case CANCEL -> answer.getCancel();
      case RESCHEDULE -> answer.getReschedule();
      case GET -> answer.getGet();
      default -> null;
    };
  }

  /** Removes a trace context that something has added to a stream, and notes that there was one. */
  private final class TraceWatch extends ClientStreamTracer.Factory {
    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
      if (headers.containsKey(TRACEPARENT) && !knowsTraces) traced = true;
      headers.discardAll(TRACEPARENT);
      headers.discardAll(TRACESTATE);
      return new ClientStreamTracer() {};
    }
  }

  /** One stream. gRPC calls the methods of the interface one at a time; the sender calls the others. */
  private final class Stream implements ClientResponseObserver<CallStreamRequest, CallStreamResponse> {
    final String token;
    // The calls without an answer, by number.
    final Map<Long, Attempt<?, ?>> open = new ConcurrentHashMap<>();
    ClientCallStreamObserver<CallStreamRequest> requests;
    // It could have sent a frame.
    boolean ready;
    // These are written before the stream is in `ended`.
    boolean answered;
    long taken = -1;
    DuetimeException error;
    private long sent;

    Stream(String token) {
      this.token = token;
    }

    void open() {
      // Ready means that everything is written.
      CallOptions options = CallOptions.DEFAULT.withOnReadyThreshold(1).withStreamTracerFactory(new TraceWatch());
      ClientCalls.asyncBidiStreamingCall(connection.channel().newCall(MessagesGrpc.getCallStreamMethod(), options), this);
    }

    void sendFrame() {
      CallStreamRequest.Builder frame = CallStreamRequest.newBuilder();
      long now = System.nanoTime();
      int bytes = 0;
      for (Attempt<?, ?> next = waiting.peek(); next != null; next = waiting.peek()) {
        bytes += next.request.getSerializedSize();
        if (frame.getCallsCount() == FRAME_CALLS_MAX || bytes > FRAME_BYTES_MAX) break;
        waiting.poll();
        if (next.answer.isDone() || next.end - now <= 0) continue;
        sent++;
        open.put(sent, next);
        frame.addCalls(callOf(sent, next, next.end - now));
      }
      if (frame.getCallsCount() > 0) requests.onNext(frame.build());
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<CallStreamRequest> stream) {
      requests = stream;
      stream.setOnReadyHandler(Gatherer.this::send);
    }

    @Override
    public void onNext(CallStreamResponse response) {
      answered = true;
      if (response.hasCallsTaken()) taken = response.getCallsTaken();
      // Threads that an answer wakes do not send meanwhile, so that their next calls go together.
      boolean sender = sending.getAndIncrement() == 0;
      response.getAnswersList().forEach(this::pass);
      if (sender) sendAsSender();
    }

    @SuppressWarnings("unchecked")
    private void pass(StreamedAnswer answer) {
      Attempt<?, ?> attempt = open.remove(answer.getNumber());
      if (attempt == null) return;
      Object value = valueOf(answer);
      if (answer.hasError()) {
        fail(attempt, DuetimeException.of(answer.getError()));
      } else if (attempt.method.getResponseMarshaller() instanceof MethodDescriptor.ReflectableMarshaller<?> type
          && type.getMessageClass().isInstance(value)) {
        ((Attempt<?, Object>) attempt).answer.complete(value);
      } else {
        fail(attempt, DuetimeException.of(Status.Code.INTERNAL, "the server answered a call with the answer of another one"));
      }
    }

    @Override
    public void onError(Throwable cause) {
      Status status = Status.fromThrowable(cause);
      // gRPC cancels a stream whose response it cannot read.
      boolean unreadable = status.getCode() == Status.Code.CANCELLED && status.getCause() instanceof StatusRuntimeException;
      if (unreadable) end(DuetimeException.of(status.getCause()));
      else if (status.getCode() == Status.Code.CANCELLED) onCompleted();
      else end(connection.errorOf(cause));
    }

    @Override
    public void onCompleted() {
      end(DuetimeException.of(Status.Code.UNAVAILABLE, "the stream ended; the outcome is unknown"));
    }

    private void end(DuetimeException cause) {
      error = cause;
      ended.add(this);
      send();
    }
  }
}
