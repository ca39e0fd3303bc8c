// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.v1.SubscribeRequest;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LeaseKeeperTest {
  private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

  private final LeaseKeeper keeper = new LeaseKeeper(Duration.ofSeconds(70));

  @BeforeEach
  void start() {
    keeper.start(com.google.protobuf.Duration.newBuilder().setSeconds(30).build());
  }

  private Set<String> overdue = Set.of();

  private List<String> collected(long second, int room) {
    SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
    overdue = keeper.collect(second * SECOND, room, request);
    assertTrue(request.getSettlementsList().stream().allMatch(settlement -> settlement.getExtend().hasDuration()));
    return request.getSettlementsList().stream().map(settlement -> settlement.getLeaseToken()).toList();
  }

  @Test
  void extendsAfterEachThirdOfTheLease() {
    keeper.add("a", 0);
    assertEquals(10 * SECOND, keeper.untilCollect(0));
    assertEquals(List.of(), collected(7, 9));
    assertEquals(List.of("a"), collected(10, 9));
    assertEquals(List.of(), collected(11, 9));
    assertEquals(List.of("a"), collected(20, 9));
    keeper.remove("a");
    assertEquals(List.of(), collected(30, 9));
  }

  @Test
  void whatHasNoRoomStaysDue() {
    for (String token : List.of("a", "b", "c")) keeper.add(token, 0);
    assertEquals(List.of("a", "b"), collected(10, 2));
    assertEquals(List.of("c"), collected(10, 2));
  }

  @Test
  void stopsWhenTheHandlerHasRunForTheLongestTime() {
    keeper.add("a", 0);
    assertEquals(List.of("a"), collected(10, 9));
    keeper.begin("a", 15 * SECOND);
    for (int second = 20; second <= 80; second += 10) assertEquals(List.of("a"), collected(second, 9), "at " + second);
    assertEquals(List.of(), collected(90, 9));
    assertEquals(Set.of(), overdue);
  }

  @Test
  void whatWaitsIsGivenBackBeforeTheLongestTime() {
    keeper.add("a", 0);
    for (int second = 10; second <= 50; second += 10) assertEquals(List.of("a"), collected(second, 9), "at " + second);
    assertEquals(List.of(), collected(60, 9));
    assertEquals(Set.of("a"), overdue);
    assertEquals(List.of(), collected(70, 9));
    assertEquals(Set.of(), overdue);
  }

  @Test
  void withoutExtensionsWhatWaitsIsGivenBackAfterTwoThirdsOfTheLease() {
    for (int keepMax : List.of(-1, 0, 10)) {
      LeaseKeeper none = new LeaseKeeper(Duration.ofSeconds(keepMax));
      none.start(com.google.protobuf.Duration.newBuilder().setSeconds(30).build());
      none.add("waits", 0);
      none.add("runs", 0);
      none.begin("runs", SECOND);
      assertEquals(20 * SECOND, none.untilCollect(0));
      SubscribeRequest.Builder request = SubscribeRequest.newBuilder();
      assertEquals(Set.of(), none.collect(20 * SECOND - 1, 9, request));
      assertEquals(Set.of("waits"), none.collect(20 * SECOND, 9, request));
      assertEquals(0, request.getSettlementsCount());
    }
  }

  @Test
  void aLeaseEndsAfterItsArrivalOrItsLastExtension() {
    keeper.add("a", 0);
    assertFalse(keeper.hasEnded("a", 29 * SECOND));
    assertTrue(keeper.hasEnded("a", 30 * SECOND));
    collected(10, 9);
    assertFalse(keeper.hasEnded("a", 39 * SECOND));
    assertTrue(keeper.hasEnded("a", 40 * SECOND));
  }

  @Test
  void aRefusedExtensionIsNotRequestedAgain() {
    keeper.add("a", 0);
    assertFalse(keeper.onRefused("a"), "nothing was requested");
    collected(10, 9);
    assertTrue(keeper.onRefused("a"));
    assertEquals(List.of(), collected(20, 9));
  }
}
