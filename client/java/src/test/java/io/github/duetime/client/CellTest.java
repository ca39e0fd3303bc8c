// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import io.github.duetime.v1.CallStreamRequest;
import io.github.duetime.v1.CallStreamResponse;
import io.github.duetime.v1.MessagesGrpc;
import io.github.duetime.v1.RescheduleRequest;
import io.github.duetime.v1.RescheduleResponse;
import io.github.duetime.v1.ScheduleRequest;
import io.github.duetime.v1.ScheduleResponse;
import io.github.duetime.v1.ScheduleStreamRequest;
import io.github.duetime.v1.ScheduleStreamResponse;
import io.github.duetime.v1.StreamedAnswer;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStarted;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.protobuf.StatusProto;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Two servers, of which one leads or none. */
@Timeout(30)
class CellTest {
  private static final NewMessage MESSAGE = NewMessage.builder("t").after(Duration.ZERO).build();

  private Member a;
  private Member b;
  private DuetimeClient client;

  @BeforeEach
  void start() throws IOException {
    a = new Member("a");
    b = new Member("b");
    client = DuetimeClient.connect(a.address() + "," + b.address());
  }

  @AfterEach
  void stop() {
    client.close();
    a.server.shutdownNow();
    b.server.shutdownNow();
  }

  /** A server. It delivers its name once on each stream of a subscriber. */
  private static final class Member extends MessagesGrpc.MessagesImplBase {
    final String name;
    final AtomicInteger accepted = new AtomicInteger();
    final AtomicInteger refused = new AtomicInteger();
    final Server server;
    private final HealthStatusManager health = new HealthStatusManager();
    private final List<StreamObserver<SubscribeResponse>> subscribers = new CopyOnWriteArrayList<>();
    private volatile boolean leads;

    Member(String name) throws IOException {
      this.name = name;
      set(false, false);
      server = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
          .addService(this).addService(health.getHealthService()).build().start();
    }

    String address() {
      return "127.0.0.1:" + server.getPort();
    }

    /** Sets if it leads, and what its health says. */
    void set(boolean leading, boolean serving) {
      leads = leading;
      health.setStatus("duetime.v1.Messages", serving ? ServingStatus.SERVING : ServingStatus.NOT_SERVING);
    }

    void leadSoon() {
      CompletableFuture.delayedExecutor(300, TimeUnit.MILLISECONDS).execute(() -> set(true, true));
    }

    void resign() {
      set(false, false);
      synchronized (subscribers) {
        subscribers.forEach(subscriber -> subscriber.onError(notLeader()));
        subscribers.clear();
      }
    }

    private static StatusRuntimeException notLeader() {
      return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder().setCode(Code.UNAVAILABLE_VALUE)
          .addDetails(Any.pack(ErrorInfo.newBuilder().setReason("NOT_LEADER").setDomain("duetime").build())).build());
    }

    private boolean admits(StreamObserver<?> observer) {
      (leads ? accepted : refused).incrementAndGet();
      if (leads) return true;
      observer.onError(notLeader());
      return false;
    }

    private <A> void answer(StreamObserver<A> observer, A answer) {
      if (!admits(observer)) return;
      observer.onNext(answer);
      observer.onCompleted();
    }

    @Override
    public void schedule(ScheduleRequest request, StreamObserver<ScheduleResponse> observer) {
      answer(observer, ScheduleResponse.getDefaultInstance());
    }

    @Override
    public void reschedule(RescheduleRequest request, StreamObserver<RescheduleResponse> observer) {
      answer(observer, RescheduleResponse.getDefaultInstance());
    }

    @Override
    public StreamObserver<CallStreamRequest> callStream(StreamObserver<CallStreamResponse> observer) {
      return new Requests<>(frame -> frame.getCallsList().forEach(call -> {
        if (!admits(observer)) return;
        StreamedAnswer.Builder answer = StreamedAnswer.newBuilder().setNumber(call.getNumber());
        if (call.hasSchedule()) answer.setSchedule(ScheduleResponse.getDefaultInstance());
        else answer.setReschedule(RescheduleResponse.getDefaultInstance());
        observer.onNext(CallStreamResponse.newBuilder().addAnswers(answer).build());
      }), observer::onCompleted);
    }

    @Override
    public StreamObserver<SubscribeRequest> subscribe(StreamObserver<SubscribeResponse> observer) {
      ((ServerCallStreamObserver<SubscribeResponse>) observer).setOnCancelHandler(() -> subscribers.remove(observer));
      if (!admits(observer)) return new Requests<>(request -> {}, () -> {});
      SubscribeResponse.Builder first = SubscribeResponse.newBuilder().setStarted(SubscribeStarted.getDefaultInstance());
      first.addDeliveriesBuilder().setMessageId(name).setLeaseToken(name);
      synchronized (subscribers) { // a test that has the delivery may end the stream at once
        observer.onNext(first.build());
        subscribers.add(observer);
      }
      return new Requests<>(request -> {}, () -> {});
    }

    @Override
    public StreamObserver<ScheduleStreamRequest> scheduleStream(StreamObserver<ScheduleStreamResponse> observer) {
      if (!admits(observer)) return new Requests<>(request -> {}, () -> {});
      ScheduleStreamResponse.Builder answer = ScheduleStreamResponse.newBuilder();
      answer.addResultsBuilder().getMessageBuilder().setId(name);
      return new Requests<>(request -> observer.onNext(answer.build()), observer::onCompleted);
    }

    private record Requests<Q>(java.util.function.Consumer<Q> each, Runnable end) implements StreamObserver<Q> {
      @Override
      public void onNext(Q request) {
        each.accept(request);
      }

      @Override
      public void onError(Throwable error) {}

      @Override
      public void onCompleted() {
        end.run();
      }
    }
  }

  @Test
  void callsFollowTheLeader() {
    b.leadSoon();
    for (int i = 0; i < 10; i++) client.schedule(MESSAGE);
    assertEquals(0, a.refused.get());
    assertEquals(10, b.accepted.get());
    b.resign();
    a.leadSoon();
    client.schedule(MESSAGE); // waits for the next leader
    assertEquals(1, a.accepted.get());
    b.leadSoon();
    a.server.shutdownNow(); // the leader is killed
    client.schedule(MESSAGE);
    assertEquals(11, b.accepted.get());
  }

  @Test
  void aCallThatAStandbyRefusesIsMadeAgainWhateverItDoes() {
    a.set(false, true); // it has not noticed yet that it leads no more
    b.leadSoon();
    client.reschedule(Target.id("m"), When.after(Duration.ZERO), "etag");
    assertTrue(a.refused.get() > 1);
    assertEquals(1, b.accepted.get());
  }

  @Test
  void aSubscriberFollowsTheLeader() throws InterruptedException {
    BlockingQueue<String> delivered = new LinkedBlockingQueue<>();
    // After NOT_LEADER the subscriber does not wait for so long.
    BackoffOptions backoff = new BackoffOptions(Duration.ofHours(1), Duration.ofHours(1), 1);
    Subscriber subscriber = client.subscriber("t").backoff(backoff).start(delivery -> {
      delivered.add(delivery.messageId());
      return Settlement.leave();
    });
    try (subscriber) {
      a.leadSoon();
      assertEquals("a", delivered.poll(10, TimeUnit.SECONDS));
      a.resign();
      b.leadSoon();
      assertEquals("b", delivered.poll(10, TimeUnit.SECONDS));
      b.resign();
    }
  }

  @Test
  void aScheduleStreamOpensAtTheLeader() {
    for (Member leader : List.of(a, b)) {
      leader.leadSoon();
      List<String> at = new ArrayList<>();
      try (DuetimeClient fresh = DuetimeClient.connect(a.address() + "," + b.address())) {
        ScheduleStream stream = fresh.openScheduleStream((number, result) -> at.add(result.get().getMessage().getId()));
        stream.send(List.of(MESSAGE));
        stream.finish();
      }
      assertEquals(List.of(leader.name), at);
      leader.resign();
    }
  }

  @Test
  void aWaitingCallReachesAMemberThatWasDown() throws Exception {
    int port = b.server.getPort();
    b.server.shutdownNow();
    CompletableFuture<ScheduleResponse> call = client.scheduleAsync(MESSAGE);
    Thread.sleep(6_000); // gRPC's own pauses between attempts are 4 s by then
    Server again = Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create())
        .addService(b).addService(b.health.getHealthService()).build().start();
    b.set(true, true);
    call.get(2, TimeUnit.SECONDS);
    again.shutdownNow();
  }

  @Test
  void eachAddressOfSeveralNeedsAPort() {
    for (String target : List.of("127.0.0.1:1,", "127.0.0.1:1,host")) {
      assertThrows(DuetimeException.InvalidArgument.class, () -> DuetimeClient.connect(target), target);
    }
  }
}
