// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStarted;
import io.grpc.Server;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A handler of several deliveries. */
@Timeout(60)
class BatchTest {
  /** Delivers two messages, and keeps what settles them: "ack", or the reason of a nack. */
  private static final class FakeMessages extends MessagesGrpc.MessagesImplBase {
    final BlockingQueue<List<String>> settled = new LinkedBlockingQueue<>();

    @Override
    public StreamObserver<SubscribeRequest> subscribe(StreamObserver<SubscribeResponse> responses) {
      return new StreamObserver<>() {
        @Override
        public void onNext(SubscribeRequest request) {
          SubscribeResponse.Builder response = SubscribeResponse.newBuilder();
          if (request.hasStart()) {
            response.setStarted(SubscribeStarted.getDefaultInstance());
            for (String token : List.of("a", "b")) response.addDeliveriesBuilder().setLeaseToken(token).setMessageId(token);
          }
          List<String> actions = new ArrayList<>();
          for (var settlement : request.getSettlementsList()) {
            actions.add(settlement.hasNack() ? settlement.getNack().getReason() : "ack");
            response.addSettled(settlement.getLeaseToken());
          }
          if (!actions.isEmpty()) settled.add(actions);
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

  private record Outcome(List<String> settled, List<String> errors) {}

  private static Outcome outcomeOf(BatchHandler handler) throws Exception {
    String name = InProcessServerBuilder.generateName();
    FakeMessages messages = new FakeMessages();
    Server server = InProcessServerBuilder.forName(name).addService(messages).build().start();
    List<String> errors = new CopyOnWriteArrayList<>();
    var builder = new Subscriber.Builder(
        () -> Connection.of(InProcessChannelBuilder.forName(name).build(), null), "t");
    builder.onHandlerError((delivery, error) -> errors.add(delivery.messageId() + ": " + Log.textOf(error)));
    try (Subscriber subscriber = builder.startBatch(handler)) {
      List<String> settled = messages.settled.take();
      assertTrue(subscriber.stop(Duration.ofSeconds(5), Duration.ofSeconds(5)));
      return new Outcome(settled, errors);
    } finally {
      server.shutdownNow();
    }
  }

  @Test
  void eachDeliveryGetsItsSettlementAndAllLeaveTogether() throws Exception {
    assertEquals(new Outcome(List.of("ack", "no"), List.of()),
        outcomeOf(deliveries -> List.of(Settlement.ack(), Settlement.nack("no"))));
    assertEquals(new Outcome(List.of("ack", "ack"), List.of()), outcomeOf(deliveries -> List.of()));
  }

  @Test
  void aHandlerThatFailsNacksAll() throws Exception {
    Map<String, BatchHandler> failures = Map.of(
        "the handler returned 1 settlements for 2 deliveries", deliveries -> List.of(Settlement.ack()),
        "the handler returned no list of settlements", deliveries -> null,
        "the handler returned no settlement", deliveries -> Arrays.asList(Settlement.ack(), null),
        "broke", deliveries -> {
          throw new IllegalStateException("broke");
        });
    for (var failure : failures.entrySet()) {
      Outcome outcome = outcomeOf(failure.getValue());
      String why = outcome.settled.get(0);
      assertTrue(why.endsWith(failure.getKey()), why);
      assertEquals(new Outcome(List.of(why, why), List.of("a: " + why, "b: " + why)), outcome);
    }
  }

  @Test
  void theHandlerOfTheReadmeCompiles(@TempDir Path folder) throws Exception {
    String readme = Files.readString(Path.of("README.md"));
    int begin = readme.indexOf("Subscriber subscriber = client.subscriber(\"orders\").batchMax");
    String code = readme.substring(begin, readme.indexOf("```", begin));
    Path file = folder.resolve("Example.java");
    Files.writeString(file, """
        import io.github.duetime.client.Delivery;
        import io.github.duetime.client.DuetimeClient;
        import io.github.duetime.client.Subscriber;
        import java.sql.Connection;
        import java.sql.PreparedStatement;
        import java.util.List;

        class Example {
          static void run(DuetimeClient client, Connection database) {
        """ + code + "  }\n}\n");
    assertEquals(0, ToolProvider.getSystemJavaCompiler().run(null, null, null, "-d", folder.toString(), "-cp",
        System.getProperty("java.class.path"), file.toString()));
  }
}
