// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.duetime.v1.Failure;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ConnectionLogTest {
  private static final long SECOND = TimeUnit.SECONDS.toNanos(1);

  @Test
  void logsEachChangeOnceAndALastingFailureEverMoreRarely() {
    List<String> lines = new ArrayList<>();
    ConnectionLog log = new ConnectionLog("it", "there", (level, text) -> lines.add(level + " " + text));
    DuetimeException unreachable = DuetimeException.of(Status.Code.UNAVAILABLE, "there: Connection refused");
    DuetimeException full = DuetimeException.of(
        Failure.newBuilder().setCode(Status.Code.RESOURCE_EXHAUSTED.value()).setReason("STREAM_LIMIT").setMessage("too many").build());
    for (int second = 0; second < 100; second++) log.onFailure(unreachable, second * SECOND);
    log.onFailure(full, 150 * SECOND);
    log.onOpen(151 * SECOND);
    log.onFailure(unreachable, 160 * SECOND);
    log.onFailure(full, 161 * SECOND);
    log.onOpen(162 * SECOND);
    log.onFailure(unreachable, 163 * SECOND);
    log.onEnd(DuetimeException.of(Status.Code.NOT_FOUND, "no topic"));
    String cannot = "WARNING it cannot reach there: Connection refused";
    assertEquals(List.of(cannot, cannot, cannot, cannot, // at 0, 10, 30 and 70 s
        "WARNING it is refused for now by there: too many",
        "INFO it is connected to there after 151 s",
        "WARNING it lost there: Connection refused",
        "INFO it is back at there after 2 s",
        "WARNING it lost there: Connection refused",
        "ERROR it is refused by there and ends: NOT_FOUND: no topic"), lines);
    lines.clear();
    new ConnectionLog("it", "there", (level, text) -> lines.add(level + " " + text)).onOpen(0);
    assertEquals(List.of("INFO it is connected to there"), lines);
  }

  @Test
  void aLineThatRepeatsComesEverMoreRarelyAndAtOnceAfterAQuietTime() {
    Rarely rarely = new Rarely();
    List<Integer> hits = new ArrayList<>();
    for (int second = 0; second < 16_000; second += 5) {
      if (rarely.may(second * SECOND)) hits.add(second);
    }
    assertEquals(List.of(0, 10, 30, 70, 150, 310, 630, 1270, 2550, 5110, 8710, 12310, 15910), hits);
    assertEquals(true, rarely.may(30_000 * SECOND));
    assertEquals(true, rarely.may(30_010 * SECOND));
  }
}
