// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.Message;
import io.github.duetime.v1.CallProto;
import io.github.duetime.v1.CallRepeat;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.protobuf.ProtoMethodDescriptorSupplier;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Makes calls with the deadline, the retries and the errors that this library promises. Thread-safe. */
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
  // Null: each call is made by itself.
  private final Gatherer gatherer;
  // Completes the futures of calls on the stream, on whose thread nothing may block.
  private final Executor completions;

  Caller(Connection connection, ClientOptions options) {
    this(connection, options, new RetryBudget(System.nanoTime()),
        options.separateCalls() ? null : new Gatherer(connection, options.traceContext() != null), Continuations.SHARED);
  }

  private Caller(
      Connection connection, ClientOptions options, RetryBudget budget, Gatherer gatherer, Executor completions) {
    this.connection = connection;
    this.options = options;
    this.budget = budget;
    this.gatherer = gatherer;
    this.completions = completions;
  }

  /** Returns a caller over another connection, for the same client. */
  Caller over(Connection other) {
    return new Caller(other, options, budget, null, completions);
  }

  /** Returns this caller for futures to which nothing is attached that may block: those of {@link #await}. */
  Caller awaited() {
    return new Caller(connection, options, budget, gatherer, Runnable::run);
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
  private final class Run<Q extends Message, A, T> {
    final CompletableFuture<T> future = new CompletableFuture<>();
    private final MethodDescriptor<Q, A> method;
    private final Q request;
    private final boolean mayRepeat;
    private final long end;
    private final ResultOf<A, T> result;
    private final Map<String, String> trace = options.currentTrace();
    private final Backoff backoff = new Backoff(options.backoff(), ThreadLocalRandom.current());
    private int tries;
    // The current try took a token of the budget.
    private boolean paid;
    private volatile CompletableFuture<A> current;

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
      Attempt<Q, A> attempt = new Attempt<>(method, request, end, trace);
      current = attempt.answer;
      boolean gathered = gatherer != null && gatherer.takes(request);
      if (gathered) {
        attempt.answer.whenCompleteAsync(this::ended, completions);
        gatherer.send(attempt);
      } else {
        attempt.answer.whenComplete(this::ended);
        attempt.sendAlone(connection.channel());
      }
      cancelIfCancelled();
    }

    void cancelIfCancelled() {
      CompletableFuture<A> answer = current;
      if (future.isCancelled() && answer != null) answer.cancel(true);
    }

    private void ended(A answer, Throwable error) {
      if (future.isDone()) return;
      if (error instanceof TimeoutException) {
        failed(DuetimeException.of(Status.Code.DEADLINE_EXCEEDED, "the deadline of the call passed before the answer came"));
      } else if (error != null) {
        failed(connection.errorOf(error));
      } else {
        succeeded(answer);
      }
    }

    private void succeeded(A answer) {
      if (paid) budget.giveBack();
      try {
        future.complete(result.make(answer, tries));
      } catch (DuetimeException e) {
        future.completeExceptionally(e);
      }
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
  }
}
