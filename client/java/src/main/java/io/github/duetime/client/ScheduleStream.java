// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.ScheduleResponse;
import io.github.duetime.v1.ScheduleResult;
import io.github.duetime.v1.ScheduleStreamRequest;
import io.github.duetime.v1.ScheduleStreamResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Schedules many messages, in frames, on one stream. Messages are numbered from 0 over all frames, in the order of
 * sending. After a break the stream knows which of the messages have an answer.
 *
 * <p>Guarantees: (1) the listener has had the result of every message below {@link #answered()}: accepted durably, or
 * refused; (2) the outcome of the other messages is unknown once the stream has ended. {@link #takeUnanswered()} returns
 * these with their request ids. The server remembers the ids for an hour, so sending the messages again on another stream
 * makes no second message. The stream does not reconnect.
 *
 * <p>Thread-safe. It holds the messages of at most {@link Options#framesMax()} frames.
 */
public final class ScheduleStream implements AutoCloseable {
  /** Gets the result of each message. */
  @FunctionalInterface
  public interface Listener {
    /**
     * Gets the result of the message with this number. A network thread makes the calls, one at a time, in order. The
     * listener may call only {@link #cancel}, {@link #sent} and {@link #answered} of the stream. What it throws is logged.
     */
    void onResult(long number, ItemResult<ScheduleResponse> result);
  }

  /**
   * The limits of a stream.
   *
   * @param framesMax the most frames without an answer; at least 1. With that many, {@link #send} waits. The server
   *     handles up to 16 frames at once.
   * @param answerTimeout the stream ends if frames wait and the server answers none of them for this long
   */
  public record Options(int framesMax, Duration answerTimeout) {
    /** 8 frames and 30 s. */
    public static final Options DEFAULT = new Options(8, Duration.ofSeconds(30));

    /** Replaces values out of bounds by the nearest valid ones. */
    public Options {
      framesMax = Math.max(1, framesMax);
      answerTimeout = Times.clamp(answerTimeout, Duration.ofMillis(1), Times.MAX);
    }
  }

  private final Options options;
  private final Connection connection;
  private final Listener listener;
  private final ClientCallStreamObserver<ScheduleStreamRequest> requests;

  // Held by a thread that sends or finishes, so that frames are sent in the order of their numbers.
  private final ReentrantLock sending = new ReentrantLock();
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  // The lock guards the fields below, and the calls of `requests`.
  // The frames that the server has not answered, in order.
  private final Deque<List<NewMessage>> frames = new ArrayDeque<>();
  private long sent;
  private long answered;
  private long answers;
  private boolean finished;
  // The stream has ended, with an error if `error` is not null.
  private boolean ended;
  private DuetimeException error;
  // Why this side broke the stream.
  private DuetimeException broken;

  ScheduleStream(Connection connection, Options options, Listener listener) {
    this.connection = connection;
    this.options = options;
    this.listener = listener;
    requests = (ClientCallStreamObserver<ScheduleStreamRequest>) MessagesGrpc.newStub(connection.channel()).scheduleStream(new Answers());
  }

  /**
   * Sends one frame. A message without a request id gets a random one. Waits while the most frames have no answer, and
   * while the connection takes no more bytes. To return means sent, not accepted.
   *
   * @throws DuetimeException why the stream has ended; {@link #takeUnanswered()} then returns this frame too
   */
  public void send(List<NewMessage> messages) {
    List<NewMessage> frame = new ArrayList<>(messages.size());
    ScheduleStreamRequest.Builder request = ScheduleStreamRequest.newBuilder();
    for (NewMessage message : messages) {
      boolean named = !message.toProto().getRequestId().isEmpty();
      frame.add(named ? message : message.toBuilder().requestId(RandomId.next()).build());
      request.addMessages(frame.get(frame.size() - 1).toProto());
    }
    sending.lock();
    lock.lock();
    try {
      // Stores the messages first, so that no error loses them.
      frames.add(frame);
      sent += frame.size();
      await(() -> frames.size() <= options.framesMax() && requests.isReady());
      if (error != null) throw error.here();
      if (ended || finished) throw DuetimeException.of(Status.Code.FAILED_PRECONDITION, "the stream was finished");
      requests.onNext(request.build());
    } finally {
      lock.unlock();
      sending.unlock();
    }
  }

  /**
   * Ends the sending and waits for all answers. A repeat does the same.
   *
   * @throws DuetimeException why the stream ended before the server had answered all frames
   */
  public void finish() {
    sending.lock();
    lock.lock();
    try {
      if (!finished && !ended) requests.onCompleted();
      finished = true;
      await(() -> false);
      if (error != null) throw error.here();
    } finally {
      lock.unlock();
      sending.unlock();
    }
  }

  /** Breaks the stream, so that {@link #send} and {@link #finish} end soon. */
  public void cancel() {
    requests.cancel("the client cancelled the stream", null);
  }

  /** Returns the number of messages that {@link #send} got. */
  public long sent() {
    lock.lock();
    try {
      return sent;
    } finally {
      lock.unlock();
    }
  }

  /** Returns the number of messages that have a result. */
  public long answered() {
    lock.lock();
    try {
      return answered;
    } finally {
      lock.unlock();
    }
  }

  /** Removes and returns the messages without a result, in order. Breaks the stream if it is open. */
  public List<NewMessage> takeUnanswered() {
    close();
    lock.lock();
    try {
      List<NewMessage> unanswered = new ArrayList<>();
      frames.forEach(unanswered::addAll);
      frames.clear();
      return unanswered;
    } finally {
      lock.unlock();
    }
  }

  /** Breaks the stream if it is open, and waits until the listener gets no more results. */
  @Override
  public void close() {
    lock.lock();
    try {
      if (!ended) cancel();
      while (!ended) changed.awaitUninterruptibly();
    } finally {
      lock.unlock();
    }
  }

  /** A condition under the lock. */
  private interface Check {
    boolean holds();
  }

  /**
   * Waits until the condition holds or the stream has ended. If no answer comes for the timeout although frames wait,
   * breaks the stream.
   */
  private void await(Check condition) {
    long seen = answers;
    long deadline = System.nanoTime() + options.answerTimeout().toNanos();
    while (!ended && !condition.holds()) {
      if (answers != seen) {
        seen = answers;
        deadline = System.nanoTime() + options.answerTimeout().toNanos();
      }
      long left = deadline - System.nanoTime();
      if (left <= 0 && broken == null) {
        breakStream(DuetimeException.of(Status.Code.DEADLINE_EXCEEDED, "the server did not answer a frame in time"));
      }
      try {
        // The end of a broken stream comes without the server.
        changed.awaitNanos(left > 0 ? left : TimeUnit.SECONDS.toNanos(1));
      } catch (InterruptedException e) {
        breakStream(DuetimeException.of(Status.Code.CANCELLED, "the thread was interrupted while it waited for the stream"));
        while (!ended) changed.awaitUninterruptibly();
        Thread.currentThread().interrupt();
      }
    }
  }

  private void breakStream(DuetimeException cause) {
    if (broken == null) broken = cause;
    requests.cancel(cause.getMessage(), null);
  }

  /** The answers, on a network thread. */
  private final class Answers implements ClientResponseObserver<ScheduleStreamRequest, ScheduleStreamResponse> {
    @Override
    public void beforeStart(ClientCallStreamObserver<ScheduleStreamRequest> stream) {
      stream.setOnReadyHandler(this::wakeSender);
    }

    private void wakeSender() {
      lock.lock();
      try {
        changed.signalAll();
      } finally {
        lock.unlock();
      }
    }

    @Override
    public void onNext(ScheduleStreamResponse response) {
      long number;
      lock.lock();
      try {
        number = answered;
        if (frames.isEmpty() || response.getFirst() != answered || frames.peek().size() != response.getResultsCount()) {
          breakStream(DuetimeException.of(Status.Code.INTERNAL, "the server answered a frame that was not the next one"));
          return;
        }
      } finally {
        lock.unlock();
      }
      for (ScheduleResult result : response.getResultsList()) {
        long current = number++;
        Log.guard("onResult", () -> listener.onResult(current, DuetimeClient.resultOf(result)));
      }
      lock.lock();
      try {
        frames.remove();
        answered = number;
        answers++;
        changed.signalAll();
      } finally {
        lock.unlock();
      }
    }

    @Override
    public void onError(Throwable cause) {
      end(connection.errorOf(cause));
    }

    @Override
    public void onCompleted() {
      end(null);
    }

    private void end(DuetimeException cause) {
      lock.lock();
      try {
        // The cause of a cancellation explains more than the cancellation.
        error = broken != null ? broken : cause;
        if (error == null && !frames.isEmpty()) {
          error = DuetimeException.of(Status.Code.INTERNAL, "the server ended the stream before it had answered all of it");
        }
        ended = true;
        changed.signalAll();
      } finally {
        lock.unlock();
      }
    }
  }
}
