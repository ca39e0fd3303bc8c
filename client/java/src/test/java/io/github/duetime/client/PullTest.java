// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.PullRequest;
import io.github.duetime.v1.PullResponse;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.grpc.Attributes;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.ServerBuilder;
import io.grpc.ServerTransportFilter;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Pulls that wait, at a server that allows one open call on a connection. */
@Timeout(30)
class PullTest {
  private static final NewMessage MESSAGE = NewMessage.builder("t").after(Duration.ZERO).build();
  private static final PullRequest WAITING =
      PullRequest.newBuilder().setTopic("t").setWait(com.google.protobuf.Duration.newBuilder().setSeconds(10)).build();

  private final AtomicInteger connections = new AtomicInteger();
  private final CompletableFuture<Void> pulled = new CompletableFuture<>();
  private final CompletableFuture<Void> gate = new CompletableFuture<>();

  private final class FakeMessages extends MessagesGrpc.MessagesImplBase {
    @Override
    public void pull(PullRequest request, StreamObserver<PullResponse> observer) {
      PullResponse.Builder answer = PullResponse.newBuilder();
      answer.addDeliveriesBuilder().setMessageId("m");
      CompletableFuture<Void> ready = request.hasWait() ? gate : CompletableFuture.completedFuture(null);
      if (request.hasWait()) pulled.complete(null);
      ready.thenRun(() -> {
        observer.onNext(answer.build());
        observer.onCompleted();
      });
    }

    @Override
    public void schedule(ScheduleRequest request, StreamObserver<ScheduleResponse> observer) {
      observer.onNext(ScheduleResponse.getDefaultInstance());
      observer.onCompleted();
    }
  }

  @Test
  void noCallWaitsBehindAPullThatWaits() throws Exception {
    ServerBuilder<?> builder = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).addService(new FakeMessages())
        .addTransportFilter(new ServerTransportFilter() {
          @Override
          public Attributes transportReady(Attributes attributes) {
            connections.incrementAndGet();
            return attributes;
          }
        });
    // The class of the builder is not on the class path of the compiler.
    builder.getClass().getMethod("maxConcurrentCallsPerConnection", int.class).invoke(builder, 1);
    Server server = builder.build().start();
    ClientOptions options =
        ClientOptions.builder().target("127.0.0.1:" + server.getPort()).deadline(Duration.ofSeconds(3)).build();
    DuetimeClient client = DuetimeClient.create(options);
    client.schedule(MESSAGE);
    client.pull(PullRequest.newBuilder().setTopic("t").build());
    assertEquals(1, connections.get(), "a pull that does not wait needs no connection of its own");
    CompletableFuture<PullResponse> pull = client.pullAsync(WAITING);
    pulled.get(5, TimeUnit.SECONDS);
    client.schedule(MESSAGE);
    assertTrue(!pull.isDone());
    gate.complete(null);
    assertEquals("m", pull.get(5, TimeUnit.SECONDS).getDeliveries(0).getMessageId());
    client.close();
    for (PullRequest request : new PullRequest[] {WAITING, PullRequest.getDefaultInstance()}) {
      assertThrows(DuetimeException.class, () -> client.pull(request));
    }
    server.shutdownNow();
  }
}
