// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.ScheduleStreamRequest;
import io.github.duetime.v1.ScheduleStreamResponse;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStarted;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.function.Supplier;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the library does when a function of the user throws, and what it logs. */
@Timeout(30)
class CallbacksTest {
  private static final BackoffOptions NONE = new BackoffOptions(Duration.ZERO, Duration.ZERO, 0);

  /** An exception without a text. */
  private static final class Mute extends RuntimeException {
    private static final long serialVersionUID = 1;

    @Override
    public String getMessage() {
      throw new IllegalStateException("no text");
    }
  }

  private static final List<Throwable> FAILURES = List.of(new IllegalStateException("broke"), new AssertionError("broke"), new Mute());

  /** Throws it although it may be a checked exception. */
  @SuppressWarnings("unchecked")
  private static <T extends Throwable, R> R raise(Throwable error) throws T {
    throw (T) error;
  }

  private final Logger logger = Logger.getLogger("io.github.duetime.client");
  private final List<String> lines = new CopyOnWriteArrayList<>();
  private final Handler lineHandler = new Handler() {
    @Override
    public void publish(LogRecord line) {
      lines.add(line.getLevel() + " " + line.getMessage());
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  };
  // When streams were opened, and what the server got.
  private final List<Long> opened = new CopyOnWriteArrayList<>();
  private final List<String> settled = new CopyOnWriteArrayList<>();
  private final String name = InProcessServerBuilder.generateName();
  private Server server;

  @BeforeEach
  void start() throws IOException {
    logger.setUseParentHandlers(false);
    logger.addHandler(lineHandler);
    server = InProcessServerBuilder.forName(name).addService(new FakeMessages()).build().start();
  }

  @AfterEach
  void stop() {
    server.shutdownNow();
    logger.removeHandler(lineHandler);
    logger.setUseParentHandlers(true);
  }

  /** Delivers one message on each stream, and breaks the stream when the message is settled. */
  private final class FakeMessages extends MessagesGrpc.MessagesImplBase {
    @Override
    public StreamObserver<SubscribeRequest> subscribe(StreamObserver<SubscribeResponse> responses) {
      opened.add(System.nanoTime());
      return new StreamObserver<>() {
        @Override
        public void onNext(SubscribeRequest request) {
          if (request.getStart().getTopic().equals("none")) {
            responses.onError(Status.NOT_FOUND.withDescription("no such topic").asException());
          } else if (request.hasStart()) {
            SubscribeResponse.Builder first = SubscribeResponse.newBuilder().setStarted(SubscribeStarted.getDefaultInstance());
            first.addDeliveriesBuilder().setLeaseToken("t");
            responses.onNext(first.build());
          }
          if (request.getSettlementsCount() == 0 || request.getSettlements(0).hasRelease()) return;
          settled.add(request.getSettlements(0).hasNack() ? "nack" : "ack");
          responses.onError(Status.UNAVAILABLE.withDescription("broken").asException());
        }

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {
          responses.onCompleted();
        }
      };
    }

    @Override
    public StreamObserver<ScheduleStreamRequest> scheduleStream(StreamObserver<ScheduleStreamResponse> responses) {
      return new StreamObserver<>() {
        private long answered;

        @Override
        public void onNext(ScheduleStreamRequest request) {
          ScheduleStreamResponse.Builder response = ScheduleStreamResponse.newBuilder().setFirst(answered);
          for (int i = 0; i < request.getMessagesCount(); i++) response.addResultsBuilder().getMessageBuilder();
          answered += request.getMessagesCount();
          responses.onNext(response.build());
        }

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {
          responses.onCompleted();
        }
      };
    }
  }

  private Subscriber.Builder subscriber(Supplier<String> token) {
    return new Subscriber.Builder(() -> Connection.of(InProcessChannelBuilder.forName(name).build(), token), "t").backoff(NONE);
  }

  private long linesWith(String text) {
    return lines.stream().filter(line -> line.contains(text)).count();
  }

  /** The server confirms no release, so the stop does not wait for it. */
  private static void stop(Subscriber subscriber) {
    subscriber.stop(Duration.ofSeconds(10), Duration.ZERO);
  }

  private static void until(Supplier<Boolean> condition) throws InterruptedException {
    while (!condition.get()) Thread.sleep(5);
  }

  @Test
  void aSubscriberGoesOnWhenItsCallbacksThrowAndLogsIt() throws Exception {
    for (Throwable failure : FAILURES) {
      for (boolean ownHandler : List.of(false, true)) {
        settled.clear();
        lines.clear();
        Subscriber.Builder builder = subscriber(null).onDisconnect(error -> raise(failure));
        if (ownHandler) builder.onHandlerError((delivery, error) -> raise(failure));
        Subscriber subscriber = builder.start(delivery -> raise(failure));
        until(() -> settled.size() >= 3);
        stop(subscriber);
        assertFalse(subscriber.ended().isCompletedExceptionally());
        assertFalse(settled.contains("ack"));
        assertTrue(linesWith("SEVERE onDisconnect threw an exception") >= 2, lines.toString());
        assertEquals(ownHandler ? 0 : 1, linesWith("SEVERE a handler threw an exception"), "rarely");
        assertTrue(linesWith("SEVERE onHandlerError threw an exception") >= (ownHandler ? 3 : 0));
      }
    }
  }

  @Test
  void aSubscriberTriesAgainWhenTheTokenSupplierThrows() throws Exception {
    for (Throwable failure : FAILURES) {
      opened.clear();
      int[] calls = {0};
      Subscriber subscriber = subscriber(() -> calls[0]++ < 2 ? raise(failure) : "token").start(delivery -> Settlement.leave());
      until(() -> opened.size() > 0);
      assertFalse(subscriber.ended().isDone());
      stop(subscriber);
    }
    assertEquals(FAILURES.size(), linesWith("no token: "));
    DuetimeClient client = DuetimeClient.on(
        Connection.of(InProcessChannelBuilder.forName(name).build(), () -> null), ClientOptions.builder().build());
    assertTrue(assertThrows(DuetimeException.class, () -> client.get(Target.id("m"))).getMessage().startsWith("no token: "));
    client.close();
  }

  @Test
  void aStreamOfMessagesGoesOnWhenItsListenerThrows() {
    NewMessage message = NewMessage.builder("t").after(Duration.ZERO).build();
    for (Throwable failure : FAILURES) {
      lines.clear();
      DuetimeClient client = DuetimeClient.on(
          Connection.of(InProcessChannelBuilder.forName(name).build(), null), ClientOptions.builder().build());
      ScheduleStream stream = client.openScheduleStream((number, result) -> raise(failure));
      for (int frame = 0; frame < 3; frame++) stream.send(List.of(message, message));
      stream.finish();
      assertEquals(6, stream.answered());
      assertEquals(6, linesWith("SEVERE onResult threw an exception"));
      client.close();
    }
  }

  @Test
  void aBackoffOfZeroDoesNotSpin() throws Exception {
    Subscriber subscriber = subscriber(null).start(delivery -> Settlement.ack());
    until(() -> opened.size() >= 5);
    stop(subscriber);
    assertTrue(opened.get(4) - opened.get(0) >= Duration.ofMillis(4 * 50).toNanos());
  }

  @Test
  void aSubscriberLogsItsConnection() throws Exception {
    Subscriber refused = new Subscriber.Builder(
        () -> Connection.of(InProcessChannelBuilder.forName(name).build(), null), "none").start(delivery -> Settlement.ack());
    assertThrows(ExecutionException.class, () -> refused.ended().get());
    refused.close();
    assertEquals(1, linesWith("SEVERE the subscriber of topic none, subscription default, is refused by "));
    assertEquals(1, linesWith("and ends: NOT_FOUND: no such topic"));

    lines.clear();
    Server first = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(new FakeMessages()).build().start();
    int port = first.getPort();
    first.shutdownNow().awaitTermination();
    DuetimeClient client = DuetimeClient.connect("127.0.0.1:" + port);
    Subscriber subscriber = client.subscriber("t").backoff(NONE).start(delivery -> Settlement.leave());
    List<String> expected = List.of("WARNING.* cannot reach 127.0.0.1:\\d+: .*Connection refused.*",
        "INFO.* is connected to 127.0.0.1:\\d+ after \\d+ s", "WARNING.* lost 127.0.0.1:\\d+: .*",
        "INFO.* is back at 127.0.0.1:\\d+ after \\d+ s");
    until(() -> lines.size() >= 1);
    Thread.sleep(200); // the other tries of this time are not logged
    for (int servers = 1; servers <= 2; servers++) {
      int count = 2 * servers;
      Server next = Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create()).addService(new FakeMessages()).build().start();
      until(() -> lines.size() >= count);
      if (servers == 2) stop(subscriber);
      next.shutdownNow().awaitTermination();
      until(() -> lines.size() >= Math.min(count + 1, 4));
    }
    client.close();
    assertEquals(expected.size(), lines.size(), lines.toString());
    for (int i = 0; i < expected.size(); i++) assertTrue(lines.get(i).matches(expected.get(i)), lines.get(i));
  }
}
