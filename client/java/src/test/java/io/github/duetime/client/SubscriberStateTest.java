// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.client.SubscriberState.Task;
import io.github.duetime.v1.DrainNotice;
import io.github.duetime.v1.Settlement.ActionCase;
import io.github.duetime.v1.SubscribeRequest;
import io.github.duetime.v1.SubscribeResponse;
import io.github.duetime.v1.SubscribeStarted;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class SubscriberStateTest {
  private static final int CREDIT = 3;
  private static final long SILENCE = TimeUnit.MILLISECONDS.toNanos(50);

  private static final long MILLISECOND = TimeUnit.MILLISECONDS.toNanos(1);
  private static final Duration LEASE = Duration.ofSeconds(300);

  private long now;
  private SubscriberState state = new SubscriberState(8, Duration.ofHours(1), () -> now);
  private long stream;

  @BeforeEach
  void openStream() {
    stream = state.beginStream();
    state.onResponse(stream, SubscribeResponse.newBuilder()
        .setStarted(SubscribeStarted.newBuilder().setMaxOutstandingMessages(CREDIT).setLeaseDuration(Times.toProto(LEASE))).build());
  }

  private void openStream(int handlers) {
    now = 0;
    state = new SubscriberState(handlers, Duration.ofHours(1), () -> now);
    openStream();
  }

  private Work takeWork() {
    return single(state.takeWork(1));
  }

  private Work pollWork() {
    return single(state.pollWork(1));
  }

  private static Work single(List<Work> batch) {
    return batch.isEmpty() ? null : batch.get(0);
  }

  private void settle(Work work, Settlement settlement) {
    state.settle(List.of(work), List.of(settlement));
  }

  /** The leases with this action. */
  private static List<String> tokens(SubscribeRequest request, ActionCase action) {
    return request.getSettlementsList().stream().filter(settlement -> settlement.getActionCase() == action)
        .map(settlement -> settlement.getLeaseToken()).toList();
  }

  private void deliver(String... tokens) {
    SubscribeResponse.Builder response = SubscribeResponse.newBuilder();
    for (String token : tokens) response.addDeliveriesBuilder().setLeaseToken(token);
    state.onResponse(stream, response.build());
  }

  /** The requests until there is nothing to send. */
  private List<SubscribeRequest> written() {
    List<SubscribeRequest> requests = new ArrayList<>();
    for (;;) {
      SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
      if (!state.takeRequest(request)) return requests;
      requests.add(request.build());
    }
  }

  /** The only request now; an empty one if there is nothing to send. */
  private SubscribeRequest writtenAt(long millis) {
    now = millis * MILLISECOND;
    List<SubscribeRequest> requests = written();
    assertTrue(requests.size() <= 1);
    return requests.isEmpty() ? SubscribeRequest.getDefaultInstance() : requests.get(0);
  }

  private Work takenAt(long millis) {
    now = millis * MILLISECOND;
    return pollWork();
  }

  private void answer(Consumer<SubscribeResponse.Builder> fields) {
    SubscribeResponse.Builder response = SubscribeResponse.newBuilder();
    fields.accept(response);
    state.onResponse(stream, response.build());
  }

  private void refuse(String token) {
    answer(response -> response.addRefusedBuilder().setLeaseToken(token));
  }

  private static int size(SubscribeRequest request) {
    return request.getSettlementsCount() + request.getBegunCount();
  }

  @Test
  void noRequestHoldsMoreSettlementsThanTheCredit() throws Exception {
    deliver("a", "b", "c", "d", "e", "f", "g");
    List<Settlement> settlements = List.of(Settlement.ack(), Settlement.nack("r"), Settlement.deadLetter("r"),
        Settlement.release(), Settlement.ack(), Settlement.nackAfter(Duration.ofSeconds(1), "r"), Settlement.ack());
    for (Settlement settlement : settlements) settle(takeWork(), settlement);
    assertEquals(List.of(3, 3, 1), written().stream().map(SubscriberStateTest::size).toList());
    assertEquals(3, state.counts().settleRequests());
  }

  @Test
  void noRequestHoldsALeaseTwice() throws Exception {
    deliver("a", "b", "c", "d", "e");
    for (Settlement settlement : List.of(Settlement.ack(), Settlement.nack("r"), Settlement.release())) {
      settle(takeWork(), settlement);
    }
    takeWork();
    now = Times.nanos(LEASE) / 3;
    List<String> requests = new ArrayList<>();
    for (SubscribeRequest request : written()) {
      List<String> items = new ArrayList<>();
      request.getSettlementsList().forEach(item -> items.add(item.getActionCase() + " " + item.getLeaseToken()));
      request.getBegunList().forEach(token -> items.add("begun " + token));
      requests.add(String.join(", ", items));
    }
    // In the order of the handlers. No lease that is settled is extended.
    assertEquals(List.of("EXTEND d, EXTEND e, ACTION_NOT_SET a", "NACK b, RELEASE c, begun d"), requests);
  }

  @Test
  void aSettlementHasTheActionOfItsKindWithItsDelayAndItsReason() {
    Duration second = Duration.ofSeconds(1);
    String tooLong = "x".repeat(256);
    Map<Settlement, String> rows = Map.of(
        Settlement.ack(), "",
        Settlement.nack("r"), "nack { reason: \"r\" }",
        Settlement.nack(tooLong), "nack { reason: \"" + tooLong.substring(1) + "\" }",
        Settlement.nackAfter(second, ""), "nack { delay { seconds: 1 } }",
        Settlement.deadLetter("r"), "dead_letter { reason: \"r\" }",
        Settlement.deadLetter(null), "dead_letter { }",
        Settlement.release(), "release { }",
        Settlement.releaseAfter(second), "release { delay { seconds: 1 } }");
    rows.forEach((settlement, text) -> {
      openStream(1);
      deliver("a");
      settle(pollWork(), settlement);
      String sent = written().get(0).getSettlements(0).toString().replaceAll("\\s+", " ").strip();
      assertEquals(("lease_token: \"a\" " + text).strip(), sent);
    });
  }

  @Test
  void aStopGivesBackWhatNoHandlerHasBegun() throws Exception {
    deliver("a", "b", "c");
    Work begun = takeWork();
    state.requestStop();
    SubscribeRequest request = written().get(0);
    assertTrue(request.getNoMoreDeliveries());
    assertEquals(List.of("b", "c"), tokens(request, ActionCase.RELEASE));
    assertNull(takeWork());
    assertTrue(!state.awaitHandlers(Duration.ofMillis(10)));
    settle(begun, Settlement.ack());
    assertTrue(state.awaitHandlers(Duration.ZERO));
    assertTrue(!state.awaitConfirmed(Duration.ofMillis(10)));
    state.onResponse(stream, SubscribeResponse.newBuilder().addSettled("a").addSettled("b").addSettled("c").build());
    assertTrue(state.awaitConfirmed(Duration.ZERO));
    assertEquals(1, state.counts().acked());
    assertEquals(2, state.counts().skipped());
  }

  @Test
  void aSettlementOfAnEarlierStreamIsNotSent() throws Exception {
    deliver("a", "b");
    Work settled = takeWork();
    Work running = takeWork();
    settle(settled, Settlement.ack());
    state.endStream();
    openStream();
    settle(running, Settlement.ack());
    assertEquals(List.of(), written());
    assertEquals(2, state.counts().lost());
  }

  @Test
  void aDrainedStreamIsHalfClosedAfterTheLastConfirmation() throws Exception {
    deliver("a");
    state.onResponse(stream, SubscribeResponse.newBuilder().setDrain(DrainNotice.getDefaultInstance()).build());
    settle(takeWork(), Settlement.ack());
    assertEquals(1, written().size());
    state.onResponse(stream, SubscribeResponse.newBuilder().addSettled("a").build());
    assertEquals(Task.HALF_CLOSE, state.nextTask(() -> true, SILENCE, SubscribeRequest.newBuilder()));
    now += SILENCE;
    assertEquals(Task.SILENT, state.nextTask(() -> true, SILENCE, SubscribeRequest.newBuilder()));
  }

  @Test
  void aHandlerIsReportedWithAnotherRequestAfter10MillisecondsAndAloneAfter100() {
    record Row(long at, boolean other, List<String> begun) {}
    for (Row row : List.of(new Row(9, true, List.of()), new Row(10, true, List.of("a")), new Row(90, true, List.of("a")),
        new Row(95, true, List.of("a", "b")), new Row(99, false, List.of()), new Row(100, false, List.of("a", "b")))) {
      openStream(4);
      deliver("a", "b", "c");
      Work a = takenAt(0);
      takenAt(85);
      now = 0;
      if (row.other) settle(pollWork(), Settlement.ack());
      assertEquals(row.begun, writtenAt(row.at).getBegunList(), row.toString());
      settle(a, Settlement.ack());
      assertEquals(row.begun.contains("b") ? List.of() : List.of("b"), writtenAt(500).getBegunList(), row.toString());
    }
  }

  @Test
  void aDeliveryThatItsHandlerLeavesIsReportedAtOnceAndOnce() {
    for (boolean stops : List.of(false, true)) {
      openStream(1);
      deliver("a");
      settle(takenAt(0), Settlement.leave());
      if (stops) state.requestStop();
      assertEquals(List.of("a"), writtenAt(0).getBegunList());
      assertEquals(0, size(writtenAt(200)));
    }
  }

  @Test
  void reportsCountAgainstTheRoomOfARequest() {
    deliver("a", "b", "c", "d", "e", "f", "g");
    for (int i = 0; i < 7; i++) pollWork();
    now = 100 * MILLISECOND;
    assertEquals(List.of(3, 3, 1), written().stream().map(SubscribeRequest::getBegunCount).toList());
  }

  @Test
  void theConnectionThreadWakesToReport() throws Exception {
    state = new SubscriberState(1, Duration.ofHours(1), System::nanoTime);
    openStream();
    SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
    Thread connection = new Thread(() -> {
      try {
        state.nextTask(() -> true, TimeUnit.SECONDS.toNanos(20), request);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    });
    connection.start();
    while (connection.getState() != Thread.State.TIMED_WAITING) Thread.onSpinWait();
    deliver("a");
    takeWork();
    connection.join();
    assertEquals(List.of("a"), request.getBegunList());
  }

  @Test
  void aRefusedReportIsALostLease() {
    for (boolean extended : List.of(false, true)) {
      for (boolean settled : List.of(false, true)) {
        openStream(1);
        deliver("a");
        Work work = takenAt(0);
        SubscribeRequest request = writtenAt(extended ? LEASE.toMillis() / 3 : 100);
        assertEquals(List.of("a"), request.getBegunList());
        assertEquals(extended ? List.of("a") : List.of(), tokens(request, ActionCase.EXTEND));
        if (settled) {
          settle(work, Settlement.ack());
          written();
        }
        for (int i = 0; i < 1 + (extended ? 1 : 0) + (settled ? 1 : 0); i++) refuse("a");
        assertEquals(1, state.counts().leasesLost());
        assertEquals(settled ? 1 : 0, state.counts().refused());
        assertEquals(0, size(writtenAt(LEASE.toMillis())));
      }
    }
  }

  @Test
  void reportsThatAnOlderServerDoesNotAnswerAreForgotten() throws Exception {
    openStream(1);
    deliver("a", "b");
    for (String token : List.of("a", "b")) {
      Work work = takenAt(0);
      writtenAt(100);
      settle(work, Settlement.ack());
      written();
      if (token.equals("a")) answer(response -> response.addSettled("a"));
      if (token.equals("b")) refuse("b");
    }
    assertTrue(state.awaitConfirmed(Duration.ZERO));
    assertEquals(List.of(1L, 1L, 0L), List.of(state.counts().acked(), state.counts().refused(), state.counts().leasesLost()));
  }

  /** A stream whose only handler waits for the confirmation of "asks", with "next" behind it. */
  private void openStreamThatConfirms() {
    openStream(1);
    answer(response -> {
      response.addDeliveriesBuilder().setLeaseToken("asks").setConfirmBegun(true);
      response.addDeliveriesBuilder().setLeaseToken("next");
    });
    assertNull(takenAt(0));
    assertEquals(List.of("asks"), writtenAt(0).getBegunList());
    assertEquals(List.of("asks", "next"), tokens(writtenAt(LEASE.toMillis() / 3), ActionCase.EXTEND));
    answer(response -> response.addExtended("asks").addExtended("next"));
    assertNull(pollWork(), "the handler waits");
  }

  @Test
  void aHandlerIsCalledAfterTheConfirmationIfTheDeliveryAsksForIt() throws Exception {
    openStreamThatConfirms();
    answer(response -> response.addBegun("asks"));
    assertEquals("asks", takeWork().token());
    assertEquals(0, size(writtenAt(LEASE.toMillis() / 2)), "it is reported once");

    openStreamThatConfirms();
    refuse("asks");
    assertEquals(List.of(1L, 1L), List.of(state.counts().skipped(), state.counts().leasesLost()));
    assertEquals("next", takeWork().token());

    openStreamThatConfirms();
    state.endStream();
    assertEquals(2, state.counts().skipped());
    assertNull(pollWork());

    openStreamThatConfirms();
    state.requestStop();
    assertTrue(state.awaitHandlers(Duration.ZERO));
    assertEquals(List.of("asks", "next"), tokens(written().get(0), ActionCase.RELEASE));
    answer(response -> response.addBegun("asks").addSettled("asks").addSettled("next"));
    assertTrue(state.awaitConfirmed(Duration.ZERO));
    assertNull(takeWork());
  }

  @Test
  void aDeliveryWhoseLeaseIsLostWhileItWaitsIsNotHandled() {
    openStream(1);
    deliver("refused", "next");
    writtenAt(LEASE.toMillis() / 3);
    refuse("refused");
    assertEquals("next", pollWork().token());
    assertEquals(List.of(1L, 1L), List.of(state.counts().skipped(), state.counts().leasesLost()));

    openStream(1);
    deliver("ended");
    now = MILLISECOND;
    deliver("next");
    assertEquals("next", takenAt(LEASE.toMillis()).token());
    assertEquals(List.of(1L, 1L), List.of(state.counts().skipped(), state.counts().leasesLost()));
  }

  @Test
  void aDeliveryThatWaitsForTooLongIsGivenBack() throws Exception {
    openStream(1);
    deliver("runs", "waits");
    pollWork();
    for (long at = 100_000; at < 3_500_000; at += 100_000) {
      assertEquals(2, tokens(writtenAt(at), ActionCase.EXTEND).size(), "at " + at);
    }
    SubscribeRequest request = writtenAt(3_500_000);
    assertEquals(List.of("runs"), tokens(request, ActionCase.EXTEND));
    assertEquals(List.of("waits"), tokens(request, ActionCase.RELEASE));
    assertEquals(1, state.counts().skipped());
    answer(response -> response.addSettled("waits"));
    assertEquals(0, state.counts().released());
    assertNull(pollWork());
  }

  private static List<String> tokens(List<Work> batch) {
    return batch.stream().map(Work::token).toList();
  }

  @Test
  void aBatchIsWhatWaits() {
    deliver("a", "b", "c");
    List<Work> batch = state.pollWork(2);
    assertEquals(List.of("a", "b"), tokens(batch));
    assertEquals(List.of("c"), tokens(state.pollWork(2)));
    state.settle(batch, List.of(Settlement.ack(), Settlement.nack("n")));
    SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
    state.takeRequest(request);
    assertEquals(List.of("a"), tokens(request.build(), ActionCase.ACTION_NOT_SET));
    assertEquals(List.of("b"), tokens(request.build(), ActionCase.NACK));
    assertEquals(2, state.counts().delivered());
  }

  @Test
  void aCallOfABatchTakesOneHandler() {
    openStream(1);
    deliver("a", "b", "c");
    List<Work> batch = state.pollWork(2);
    assertEquals(List.of(), state.pollWork(2), "the handler runs");
    state.settle(batch, List.of(Settlement.ack(), Settlement.ack()));
    assertEquals(List.of("c"), tokens(state.pollWork(2)));
  }

  @Test
  void aBatchHasNoDeliveryWhoseLeaseHasEndedAndOneToConfirmIsAlone() {
    deliver("a", "b");
    now = LEASE.toNanos();
    deliver("c");
    state.onResponse(stream, SubscribeResponse.newBuilder().addDeliveries(
        io.github.duetime.v1.Delivery.newBuilder().setLeaseToken("asks").setConfirmBegun(true)).build());
    deliver("d");
    assertEquals(List.of("c"), tokens(state.pollWork(9)));
    assertEquals(2, state.counts().skipped());
    assertEquals(List.of("d"), tokens(state.pollWork(9)), "beside the one that waits for the server");
    state.onResponse(stream, SubscribeResponse.newBuilder().addBegun("asks").build());
    assertEquals(List.of("asks"), tokens(state.pollWork(9)));
  }
}
