// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Message;
import io.github.duetime.v1.CallProto;
import io.github.duetime.v1.CallRepeat;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Makes unary calls with the deadline, the retries and the errors that this library promises. Thread-safe. */
final class Caller {
  /** Makes the result of a call from its answer and the number of its tries, without those that a standby refused. */
  interface ResultOf<A, T> {
    T make(A answer, int tries);
  }

  /**
   * The least wait of a call. Instead of a wait that would pass its deadline, it waits half of the time that is left, down to
   * this.
   */
  private static final long WAIT_NANOS_MIN = TimeUnit.MILLISECONDS.toNanos(50);

  // A call without a token of the budget looks for one again after this. It must not miss those that others return.
  private static final long TOKEN_PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

  private final Connection connection;
  private final ClientOptions options;
  private final RetryBudget budget;

  Caller(Connection connection, ClientOptions options) {
    this(connection, options, new RetryBudget(System.nanoTime()));
  }

  private Caller(Connection connection, ClientOptions options, RetryBudget budget) {
    this.connection = connection;
    this.options = options;
    this.budget = budget;
  }

  /** Returns a caller over another connection, for the same client. */
  Caller over(Connection other) {
    return new Caller(other, options, budget);
  }

  /**
   * Makes the call, and repeats it until it succeeds, fails with an error that forbids a repeat, or the deadline passes.
   * The deadline is that of the options plus {@code extra}. Without {@code repeat} it makes one try. To cancel the future cancels the call.
   */
  <Q extends Message, A, T> CompletableFuture<T> call(
      MethodDescriptor<Q, A> method, Q request, boolean repeat, Duration extra, ResultOf<A, T> result) {
    // gRPC's answer would depend on a race between its timer and the connection.
    if (options.deadline().compareTo(Duration.ZERO) <= 0) {
      return CompletableFuture.failedFuture(DuetimeException.of(
          Status.Code.DEADLINE_EXCEEDED, "the deadline of the call is not in the future"));
    }
    long end = System.nanoTime() + Times.nanos(options.deadline().plus(extra));
    Run<Q, A, T> run = new Run<>(method, request, repeat && mayRepeat(method, request), end, result);
    budget.onCall();
    run.start();
    run.future.whenComplete((value, error) -> run.cancelIfCancelled());
    return run.future;
  }

  static CallRepeat repeatOf(MethodDescriptor<?, ?> method) {
    ProtoMethodDescriptorSupplier descriptor = (ProtoMethodDescriptorSupplier) method.getSchemaDescriptor();
    return descriptor.getMethodDescriptor().getOptions().getExtension(CallProto.call).getRepeat();
  }

  /** What the protos (call.proto) say: whether a repeat neither does harm nor gives a misleading answer. */
  static boolean mayRepeat(MethodDescriptor<?, ?> method, Message request) {
    switch (repeatOf(method)) {
      case CALL_REPEAT_READ:
      case CALL_REPEAT_SAFE:
      case CALL_REPEAT_IF_NAMED: // the client names it, unless its caller forbids a repeat
        return true;
      case CALL_REPEAT_WITHOUT_ETAG:
        return request.getField(request.getDescriptorForType().findFieldByName("etag")).equals("");
      default:
        return false;
    }
  }

  /** Waits for the result of a call. Throws its error with the stack of this thread. */
  static <T> T await(CompletableFuture<T> future) {
    try {
      return future.get();
    } catch (InterruptedException e) {
      future.cancel(true);
      Thread.currentThread().interrupt();
      throw DuetimeException.of(Status.Code.CANCELLED, "the thread was interrupted while it waited for the answer");
    } catch (ExecutionException e) {
      throw DuetimeException.of(e.getCause()).here();
    }
  }

  /** One call and its tries, one after the other. */
  private final class Run<Q, A, T> {
    final CompletableFuture<T> future = new CompletableFuture<>();
    private final MethodDescriptor<Q, A> method;
    private final Q request;
    private final boolean mayRepeat;
    private final long end;
    private final ResultOf<A, T> result;
    private final Backoff backoff = new Backoff(options.backoff(), ThreadLocalRandom.current());
    private int tries;
    // The current try took a token of the budget.
    private boolean paid;
    private volatile ClientCall<Q, A> current;

    Run(MethodDescriptor<Q, A> method, Q request, boolean mayRepeat, long end, ResultOf<A, T> result) {
      this.method = method;
      this.request = request;
      this.mayRepeat = mayRepeat;
      this.end = end;
      this.result = result;
    }

    void start() {
      if (future.isDone()) return;
      tries++;
      connection.wake();
      CallOptions deadline = CallOptions.DEFAULT.withDeadlineAfter(end - System.nanoTime(), TimeUnit.NANOSECONDS);
      ClientCall<Q, A> call = connection.channel().newCall(method, deadline);
      ClientCalls.asyncUnaryCall(call, request, new Answer());
      current = call;
      cancelIfCancelled();
    }

    void cancelIfCancelled() {
      ClientCall<Q, A> call = current;
      if (future.isCancelled() && call != null) call.cancel("the caller cancelled the call", null);
    }

    private void failed(DuetimeException error) {
      boolean refused = connection.refusedByStandby(error);
      if (paid && (refused || isAnswer(error))) budget.giveBack();
      if (refused) {
        tries--;
        repeat(error, Cell.PAUSE_NANOS, true);
      } else if (error instanceof DuetimeException.Unavailable && mayRepeat
          && (options.attemptsMax() <= 0 || tries < options.attemptsMax())) {
        repeat(error, nextWait(error), false);
      } else {
        future.completeExceptionally(error);
      }
    }

    /** Returns true for an error with which a server that works has answered. */
    private boolean isAnswer(DuetimeException error) {
      return error.code() != Status.Code.UNAVAILABLE && error.code() != Status.Code.DEADLINE_EXCEEDED
          && error.code() != Status.Code.CANCELLED;
    }

    private long nextWait(DuetimeException error) {
      return backoff.next(error.retryDelay().orElse(Duration.ZERO));
    }

    /** Makes another try after the wait, or after a further wait if the budget is empty then. */
    private void repeat(DuetimeException error, long wait, boolean free) {
      long left = end - System.nanoTime();
      long next = wait < left ? wait : left / 2;
      long least = wait < left ? 0 : Math.max(WAIT_NANOS_MIN, Times.nanos(error.retryDelay().orElse(Duration.ZERO)));
      if (connection.isClosed() || next < least) {
        future.completeExceptionally(error);
        return;
      }
      CompletableFuture.delayedExecutor(next, TimeUnit.NANOSECONDS).execute(() -> {
        if (future.isDone()) return;
        if (connection.isClosed()) {
          future.completeExceptionally(error);
          return;
        }
        try {
          paid = !free && budget.take(System.nanoTime());
          if (free || paid) start();
          else repeat(error, TOKEN_PAUSE_NANOS, false);
        } catch (RuntimeException e) {
          future.completeExceptionally(DuetimeException.of(e));
        }
      });
    }

    /** The answer of one try. */
    private final class Answer implements StreamObserver<A> {
      private A value;

      @Override
      public void onNext(A next) {
        value = next;
      }

      @Override
      public void onError(Throwable error) {
        failed(connection.errorOf(error));
      }

      @Override
      public void onCompleted() {
        if (paid) budget.giveBack();
        try {
          future.complete(result.make(value, tries));
        } catch (DuetimeException e) {
          future.completeExceptionally(e);
        }
      }
    }
  }
}
