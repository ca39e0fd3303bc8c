// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.client.SubscriberState.Task;
import io.github.duetime.client.SubscriberState.Work;
import io.github.duetime.v1.DrainNotice;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStarted;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class SubscriberStateTest {
  private static final int CREDIT = 3;
  private static final long SILENCE = TimeUnit.MILLISECONDS.toNanos(50);

  private final SubscriberState state = new SubscriberState(Duration.ofHours(1));
  private long stream;

  @BeforeEach
  void openStream() {
    stream = state.beginStream();
    state.onResponse(stream, SubscribeResponse.newBuilder()
        .setStarted(SubscribeStarted.newBuilder().setMaxOutstandingMessages(CREDIT).setLeaseDuration(seconds(300))).build());
  }

  private static com.google.protobuf.Duration seconds(long value) {
    return com.google.protobuf.Duration.newBuilder().setSeconds(value).build();
  }

  private void deliver(String... tokens) {
    SubscribeResponse.Builder response = SubscribeResponse.newBuilder();
    for (String token : tokens) response.addDeliveriesBuilder().setLeaseToken(token);
    state.onResponse(stream, response.build());
  }

  /** The requests until there is nothing to send. */
  private List<SubscribeRequest> written() throws InterruptedException {
    List<SubscribeRequest> requests = new ArrayList<>();
    for (;;) {
      SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
      if (state.nextTask(() -> true, SILENCE, request) != Task.WRITE) return requests;
      requests.add(request.build());
    }
  }

  private static int size(SubscribeRequest request) {
    return request.getAckCount() + request.getNackCount() + request.getReleaseCount() + request.getDeadLetterCount()
        + request.getExtendCount();
  }

  @Test
  void noRequestHoldsMoreSettlementsThanTheCredit() throws Exception {
    deliver("a", "b", "c", "d", "e", "f", "g");
    List<Settlement> settlements = List.of(Settlement.ack(), Settlement.nack("r"), Settlement.deadLetter("r"),
        Settlement.release(), Settlement.ack(), Settlement.nackAfter(Duration.ofSeconds(1), "r"), Settlement.ack());
    for (Settlement settlement : settlements) state.settle(state.takeWork(), settlement);
    assertEquals(List.of(3, 3, 1), written().stream().map(SubscriberStateTest::size).toList());
    assertEquals(3, state.counts().settleRequests());
  }

  @Test
  void aStopGivesBackWhatNoHandlerHasBegun() throws Exception {
    deliver("a", "b", "c");
    Work begun = state.takeWork();
    state.requestStop();
    SubscribeRequest request = written().get(0);
    assertTrue(request.getNoMoreDeliveries());
    assertEquals(List.of("b", "c"), request.getReleaseList().stream().map(release -> release.getLeaseToken()).toList());
    assertNull(state.takeWork());
    assertTrue(!state.awaitHandlers(Duration.ofMillis(10)));
    state.settle(begun, Settlement.ack());
    assertTrue(state.awaitHandlers(Duration.ZERO));
    assertTrue(!state.awaitConfirmed(Duration.ofMillis(10)));
    state.onResponse(stream, SubscribeResponse.newBuilder().addSettled("a").addSettled("b").addSettled("c").build());
    assertTrue(state.awaitConfirmed(Duration.ZERO));
    assertEquals(1, state.counts().acked());
    assertEquals(2, state.counts().skipped());
  }

  @Test
  void aSettlementOfAnEarlierStreamIsNotSent() throws Exception {
    deliver("a");
    Work work = state.takeWork();
    state.endStream();
    openStream();
    state.settle(work, Settlement.ack());
    assertEquals(List.of(), written());
    assertEquals(1, state.counts().lost());
  }

  @Test
  void aDrainedStreamIsHalfClosedAfterTheLastConfirmation() throws Exception {
    deliver("a");
    state.onResponse(stream, SubscribeResponse.newBuilder().setDrain(DrainNotice.getDefaultInstance()).build());
    state.settle(state.takeWork(), Settlement.ack());
    assertEquals(1, written().size());
    state.onResponse(stream, SubscribeResponse.newBuilder().addSettled("a").build());
    assertEquals(Task.HALF_CLOSE, state.nextTask(() -> true, SILENCE, SubscribeRequest.newBuilder()));
    assertEquals(Task.SILENT, state.nextTask(() -> true, SILENCE, SubscribeRequest.newBuilder()));
  }
}
