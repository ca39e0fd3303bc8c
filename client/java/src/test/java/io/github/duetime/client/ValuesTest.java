// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.nio.channels.ClosedChannelException;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ValuesTest {
  @Test
  void durationsKeepTheirSignInProtobuf() {
    com.google.protobuf.Duration proto = Times.toProto(Duration.ofMillis(-1_500));
    assertEquals(-1, proto.getSeconds());
    assertEquals(-500_000_000, proto.getNanos());
    assertEquals(Duration.ofMillis(-1_500), Times.fromProto(proto));
  }

  @Test
  void aLocalTimeIsRoundedUpToMilliseconds() {
    LocalDateTime time = LocalDateTime.of(2030, 12, 31, 23, 59, 59, 999_000_001);
    assertEquals(new When.Local("2031-01-01T00:00", "Europe/Berlin"), When.local(time, ZoneId.of("Europe/Berlin")));
  }

  @Test
  void aLongReasonIsCutAtACharacter() {
    assertEquals("x" + "ß".repeat(127), Settlement.nack("x" + "ß".repeat(200)).reason());
    assertEquals("ß".repeat(127), Settlement.nack("ß".repeat(200)).reason());
  }

  @Test
  void aWaitIsInTheUpperHalfOfABoundThatGrows() {
    Backoff backoff = new Backoff(new BackoffOptions(Duration.ofMillis(100), Duration.ofMillis(300), 2), new Random(1));
    for (long bound : List.of(100, 200, 300, 300)) {
      long wait = backoff.next(Duration.ofSeconds(1)) / 1_000_000 - 1_000;
      assertTrue(bound / 2 - 1 <= wait && wait <= bound, wait + " ms with a bound of " + bound);
    }
  }

  @Test
  void aListGoesOnAfterAnEmptyPageAndAnError() {
    Map<String, PagedList.Page<Integer>> pages = Map.of("", new PagedList.Page<>(List.of(1), "a"),
        "a", new PagedList.Page<>(List.of(), "b"), "b", new PagedList.Page<>(List.of(2, 3), ""));
    boolean[] failed = {false};
    Iterator<Integer> items = new PagedList<>(token -> {
      if (token.equals("b") && !failed[0]) {
        failed[0] = true;
        throw new IllegalStateException();
      }
      return pages.get(token);
    }).iterator();
    assertEquals(1, items.next());
    assertThrows(IllegalStateException.class, items::next);
    assertEquals(List.of(2, 3), List.of(items.next(), items.next()));
    assertTrue(!items.hasNext());
    assertThrows(DuetimeException.class, () -> new PagedList<>(token -> new PagedList.Page<>(List.of(1), "a")).stream().toList());
  }

  @Test
  void aConnectionThatBreaksIsUnavailable() {
    Status broken = Status.UNKNOWN.withDescription("channel closed").withCause(new ClosedChannelException());
    assertEquals(Status.Code.UNAVAILABLE, DuetimeException.of(broken, null).code());
    assertEquals(Status.Code.UNKNOWN, DuetimeException.of(Status.UNKNOWN, null).code());
  }
}
