// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStart;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Receives the due messages of a subscription, hands them to a handler, and settles them. It keeps one stream to the server
 * open until {@link #stop}, or until the server refuses it for a permanent reason.
 *
 * <p>Handler threads take deliveries in the order of the stream. A connection thread sends all settlements since its last
 * request as one request, so that load makes batches; no request exceeds the stream's credit. It also extends the leases of
 * unsettled deliveries. When a stream ends, deliveries without a handler are dropped (the server delivers them again), and
 * a new stream opens after a backoff. When the server drains, the subscriber first handles and settles its deliveries.
 *
 * <p>Guarantees: (1) with one handler, the handler gets deliveries in the order of the stream; (2) a settlement is sent only
 * on the stream of its delivery; (3) the credit bounds the memory. A message can come more than once. The subscriber does
 * not interrupt a handler that lost its lease. Thread-safe.
 */
public final class Subscriber implements AutoCloseable {
  private static final Duration CONFIRM_TIMEOUT = Duration.ofSeconds(5);
  private static final long RECONNECT_NANOS_MIN = TimeUnit.MILLISECONDS.toNanos(50);
  // If a stream is not open after this time, the log says so.
  private static final int OPEN_SECONDS = 5;

  private final Builder options;
  private final BatchHandler handler;
  // The most deliveries in one call of the handler.
  private final int batchMax;
  private final SubscriberState state;
  private final List<Thread> handlers = new ArrayList<>();
  private final Thread connector;
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private final ConnectionLog log;
  private final Rarely handlerErrors = new Rarely();
  // Only the connection thread uses it once it runs.
  private Connection connection;

  private final ReentrantLock stopLock = new ReentrantLock();
  // Whether the stop was clean; null before the stop. The stop lock guards it.
  private Boolean stopped;

  private Subscriber(Builder options, int batchMax, BatchHandler handler) {
    this.options = options;
    this.batchMax = batchMax;
    this.handler = handler;
    connection = options.open.get();
    String subscription = options.start.getSubscription().isEmpty() ? "default" : options.start.getSubscription();
    log = new ConnectionLog("the subscriber of topic " + options.start.getTopic() + ", subscription " + subscription + ",",
        connection.address(), (level, text) -> Log.write(level, text, null));
    state = new SubscriberState(options.handlers, options.extendMax, System::nanoTime);
    for (int i = 0; i < options.handlers; i++) handlers.add(options.threads.newThread(this::handle));
    connector = new Thread(this::keepConnected, "duetime-subscriber");
    connector.setDaemon(true);
  }

  private Subscriber begin() {
    handlers.forEach(Thread::start);
    connector.start();
    return this;
  }

  /**
   * Returns a future that ends with the subscriber: without a value after {@link #stop}, or with the
   * {@link DuetimeException} for which the server refuses the subscriber for good, for example INVALID_ARGUMENT.
   */
  public CompletableFuture<Void> ended() {
    return ended.copy();
  }

  /** Returns what the subscriber did since its start. */
  public SubscriberCounts counts() {
    return state.counts();
  }

  /**
   * Ends the subscriber. Starts no further handler, and gives back the deliveries without one. Waits for running handlers,
   * then for the server to confirm the settlements, for at most these times, and closes the stream. A handler that still
   * runs is not interrupted, and its settlement is not sent. An interrupt of this thread ends the waits. A repeat returns
   * the first result.
   *
   * @return true if every handler returned and every settlement was confirmed; otherwise those messages come again
   */
  public boolean stop(Duration handlersTimeout, Duration confirmTimeout) {
    if (handlers.contains(Thread.currentThread())) throw new IllegalStateException("a handler cannot stop its subscriber");
    stopLock.lock();
    try {
      if (stopped != null) return stopped;
      state.requestStop();
      boolean clean = false;
      boolean interrupted = false;
      try {
        boolean handled = state.awaitHandlers(handlersTimeout);
        clean = state.awaitConfirmed(confirmTimeout) && handled;
      } catch (InterruptedException e) {
        interrupted = true;
      }
      state.close();
      for (;;) {
        try {
          connector.join();
          break;
        } catch (InterruptedException e) {
          interrupted = true;
        }
      }
      if (interrupted) Thread.currentThread().interrupt();
      ended.complete(null);
      stopped = clean;
      return clean;
    } finally {
      stopLock.unlock();
    }
  }

  /** Stops, and waits for running handlers without a limit and for confirmations for 5 s. */
  @Override
  public void close() {
    stop(Times.MAX, CONFIRM_TIMEOUT);
  }

  // ---- Handler threads

  private void handle() {
    for (List<Work> batch = state.takeWork(batchMax); !batch.isEmpty(); batch = state.takeWork(batchMax)) {
      state.settle(batch, settlementsOf(batch.stream().map(Work::delivery).toList()));
    }
  }

  /** Calls the handler. Nothing that it throws may end the thread. Returns one settlement for each delivery. */
  private List<Settlement> settlementsOf(List<Delivery> deliveries) {
    int count = deliveries.size();
    try {
      List<Settlement> settlements = handler.handle(deliveries);
      // A copy, because the handler may change its list.
      settlements = new ArrayList<>(Objects.requireNonNull(settlements, "the handler returned no list of settlements"));
      if (settlements.isEmpty()) return Collections.nCopies(count, Settlement.ack());
      if (settlements.size() != count) {
        throw new IllegalStateException("the handler returned " + settlements.size() + " settlements for " + count + " deliveries");
      }
      for (Settlement settlement : settlements) Objects.requireNonNull(settlement, "the handler returned no settlement");
      return settlements;
    } catch (Throwable e) {
      if (options.onHandlerError != null) {
        for (Delivery delivery : deliveries) Log.guard("onHandlerError", () -> options.onHandlerError.accept(delivery, e));
      } else if (handlerErrors.may(System.nanoTime())) {
        String others = count > 1 ? " with " + (count - 1) + " others" : "";
        Log.write(Level.ERROR, "a handler threw an exception, so message " + deliveries.get(0).messageId() + " is nacked" + others, e);
      }
      return Collections.nCopies(count, Settlement.nack(Log.textOf(e)));
    }
  }

  // ---- Connection thread

  private void keepConnected() {
    Backoff backoff = new Backoff(options.backoff, ThreadLocalRandom.current());
    DuetimeException failure = null;
    try {
      for (;;) {
        long opened = System.nanoTime();
        DuetimeException end = runStream();
        if (!mayPass(end.code())) {
          failure = end;
          return;
        }
        // A stream that lived longer than the longest wait starts the backoff anew.
        if (System.nanoTime() - opened > options.backoff.max().toNanos()) backoff.reset();
        long wait = connection.refusedByStandby(end)
            ? Cell.PAUSE_NANOS : backoff.next(end.retryDelay().orElse(Duration.ZERO));
        if (!state.pause(0)) return;
        log.onFailure(end, System.nanoTime());
        Log.guard("onDisconnect", () -> options.onDisconnect.accept(end));
        if (!state.pause(Math.max(wait, RECONNECT_NANOS_MIN))) return;
      }
    } catch (InterruptedException | RuntimeException | Error e) {
      failure = DuetimeException.of(e);
    } finally {
      state.endStream();
      connection.close();
      if (failure != null) {
        log.onEnd(failure);
        state.end();
        ended.completeExceptionally(failure);
      }
    }
  }

  /** Returns true if a new stream may succeed. An error about the request itself is permanent. */
  private static boolean mayPass(Status.Code code) {
    return switch (code) {
      case INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, UNAUTHENTICATED, FAILED_PRECONDITION,
          OUT_OF_RANGE, UNIMPLEMENTED -> false;
      // A restart, a full table, a broken connection, for which gRPC has several codes.
      default -> true;
    };
  }

  /** Runs one stream from its opening to its end. Returns how it ended. */
  private DuetimeException runStream() throws InterruptedException {
    connection.wake();
    Responses responses = new Responses(state.beginStream());
    responses.watchOpening();
    ClientCallStreamObserver<SubscribeRequest> requests = (ClientCallStreamObserver<SubscribeRequest>)
        MessagesGrpc.newStub(connection.channel()).subscribe(responses);
    try {
      requests.onNext(SubscribeRequest.newBuilder().setStart(options.start).build());
      for (;;) {
        SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
        switch (state.nextTask(requests::isReady, Times.nanos(options.silenceMax), request)) {
          case WRITE -> requests.onNext(request.build());
          case HALF_CLOSE -> requests.onCompleted();
          case OVER -> {
            return responses.end;
          }
          case SILENT -> {
            renewConnection();
            return DuetimeException.of(Status.Code.UNAVAILABLE, "the server was silent for " + options.silenceMax);
          }
          case CLOSE -> {
            return DuetimeException.of(Status.Code.CANCELLED, "the subscriber was stopped");
          }
        }
      }
    } finally {
      responses.opening = false;
      state.endStream();
      // Does nothing if the stream has ended.
      requests.cancel("the subscriber ended the stream", null);
    }
  }

  /** Leaves a connection that may be dead although no error says so. */
  private void renewConnection() {
    Connection old = connection;
    connection = options.open.get();
    old.close();
  }

  /** The responses of one stream, on a network thread. */
  private final class Responses implements ClientResponseObserver<SubscribeRequest, SubscribeResponse> {
    private final long stream;
    private final Connection source = connection;
    // The stream is not open, and not over.
    private volatile boolean opening = true;
    // Set before the state hears of the end.
    private volatile DuetimeException end;

    Responses(long stream) {
      this.stream = stream;
    }

    /** A stream to a cell without a leader waits, and so does one to a machine that is down. */
    void watchOpening() {
      CompletableFuture.delayedExecutor(OPEN_SECONDS, TimeUnit.SECONDS).execute(() -> {
        if (!opening) return;
        log.onFailure(DuetimeException.of(Status.Code.UNAVAILABLE, "no answer yet"), System.nanoTime());
        watchOpening();
      });
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<SubscribeRequest> requests) {
      requests.setOnReadyHandler(state::onReady);
    }

    @Override
    public void onNext(SubscribeResponse response) {
      if (response.hasStarted()) {
        opening = false;
        log.onOpen(System.nanoTime());
      }
      state.onResponse(stream, response);
    }

    @Override
    public void onError(Throwable error) {
      end = source.errorOf(error);
      state.onStreamEnd(stream);
    }

    @Override
    public void onCompleted() {
      end = DuetimeException.of(Status.Code.UNAVAILABLE, "the server ended the stream");
      state.onStreamEnd(stream);
    }
  }

  /** Builds and starts a subscriber. {@link DuetimeClient#subscriber} makes one. */
  public static final class Builder {
    private final Supplier<Connection> open;
    private final SubscribeStart.Builder startBuilder;
    private SubscribeStart start;
    private Duration extendMax = Duration.ofHours(1);
    private int handlers = 1;
    private int batchMax = 100;
    private BackoffOptions backoff = BackoffOptions.DEFAULT;
    private Duration silenceMax = Duration.ofMinutes(1);
    private Consumer<DuetimeException> onDisconnect = error -> {};
    // null: the library logs the error.
    private BiConsumer<Delivery, Throwable> onHandlerError;
    private ThreadFactory threads = task -> {
      Thread thread = new Thread(task, "duetime-handler");
      thread.setDaemon(true);
      return thread;
    };

    Builder(Supplier<Connection> open, String topic) {
      this.open = open;
      startBuilder = SubscribeStart.newBuilder().setTopic(topic).setReportsBegun(true);
    }

    private Builder(Builder from) {
      open = from.open;
      startBuilder = from.startBuilder;
      start = from.startBuilder.build();
      extendMax = from.extendMax;
      handlers = from.handlers;
      batchMax = from.batchMax;
      backoff = from.backoff;
      silenceMax = from.silenceMax;
      onDisconnect = from.onDisconnect;
      onHandlerError = from.onHandlerError;
      threads = from.threads;
    }

    /**
     * Sets the subscription; the default is named "default". The first use creates it, unless the server is configured
     * otherwise. Subscribers of one subscription share its messages.
     */
    public Builder subscription(String value) {
      startBuilder.setSubscription(value);
      return this;
    }

    /** Names this subscriber in the server's logs. */
    public Builder clientId(String value) {
      startBuilder.setClientId(value);
      return this;
    }

    /** Sets the credit: the most messages that are delivered and not settled. 0: the server's default, 1,000. */
    public Builder maxOutstandingMessages(int value) {
      startBuilder.setMaxOutstandingMessages(value);
      return this;
    }

    /** Sets the credit in bytes of payload and attributes. 0: the server's default, 64 MiB. */
    public Builder maxOutstandingBytes(long value) {
      startBuilder.setMaxOutstandingBytes(value);
      return this;
    }

    /**
     * Sets the lease of a delivery. Default: that of the subscription (30 s). When this program dies, other subscribers
     * get its messages after this time. Handlers may take longer, see {@link #extendMax}.
     */
    public Builder lease(Duration value) {
      startBuilder.setLeaseDuration(Times.toProto(value));
      return this;
    }

    /**
     * Sets for how long the subscriber extends the lease of a delivery while its handler runs, each time that a third of
     * the lease has passed. Default: 1 hour. Afterwards the message goes to another subscriber. A delivery that waits for a
     * handler for as long is given back. Zero: the subscriber extends no lease.
     */
    public Builder extendMax(Duration value) {
      extendMax = Objects.requireNonNull(value);
      return this;
    }

    /** Sets how many calls of the handler may run at once, a thread each. Default: 1. */
    public Builder handlers(int value) {
      handlers = Math.max(1, value);
      return this;
    }

    /** Sets the most deliveries in one call of a {@link BatchHandler}. The credit bounds a batch as well. Default: 100. */
    public Builder batchMax(int value) {
      batchMax = Math.max(1, value);
      return this;
    }

    /** Sets what makes the threads of the handlers. Default: daemon threads. */
    public Builder threads(ThreadFactory value) {
      threads = Objects.requireNonNull(value);
      return this;
    }

    /** Sets the waits before a new stream. None is shorter than 50 ms. */
    public Builder backoff(BackoffOptions value) {
      backoff = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Sets for how long the server may be silent before the subscriber connects again. Default: 1 minute. The server sends
     * a heartbeat every 15 s by default. This detects peers that vanish without closing the connection.
     */
    public Builder silenceMax(Duration value) {
      silenceMax = Times.clamp(value, Duration.ofMillis(1), Times.MAX);
      return this;
    }

    /** Gets why a stream ended that will be opened again. Runs on the connection thread, so it must be brief. */
    public Builder onDisconnect(Consumer<DuetimeException> value) {
      onDisconnect = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Gets what a handler throws, before the delivery is nacked; of a batch, once for each delivery. Runs on the thread of
     * the handler. Default: logs it.
     */
    public Builder onHandlerError(BiConsumer<Delivery, Throwable> value) {
      onHandlerError = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Starts to connect. A server that cannot be reached is no error, because the subscriber tries until it connects.
     *
     * @throws DuetimeException.InvalidArgument if a TLS file is bad or cannot be read
     */
    public Subscriber start(DeliveryHandler handler) {
      Objects.requireNonNull(handler);
      return new Subscriber(new Builder(this), 1, deliveries ->
          Collections.singletonList(handler.handle(deliveries.get(0)))).begin();
    }

    /** As {@link #start}, with a handler of up to {@link #batchMax} deliveries. {@link #handlers} counts its calls. */
    public Subscriber startBatch(BatchHandler handler) {
      return new Subscriber(new Builder(this), batchMax, Objects.requireNonNull(handler)).begin();
    }
  }
}
