// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.duetime.client.DuetimeException;
import io.github.duetime.client.NewMessage;
import io.github.duetime.client.Settlement;
import io.github.duetime.v1.AdvanceLimits;
import io.github.duetime.v1.AdvanceRequest;
import io.github.duetime.v1.Advanced.Stop;
import io.github.duetime.v1.HandOut;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** A test server over the built daemon, and what may go wrong. */
@EnabledIfEnvironmentVariable(named = "DUETIMED", matches = ".+")
@ExtendWith(TestServerExtension.class)
@Timeout(60)
class TestServerTest {
  private static final Duration HOUR = Duration.ofHours(1);

  /** A test that is killed while it waits. */
  public static void main(String[] arguments) throws InterruptedException {
    System.out.println(TestServer.start().address());
    Thread.sleep(600_000);
  }

  @Test
  void theClockMovesByRequestOnly(TestServer server) {
    ServerClock clock = server.clock();
    assertEquals(TestServer.START, clock.now());
    clock.advance(HOUR);
    clock.advanceTo(TestServer.START.plus(Duration.ofDays(2)));
    server.client().schedule(NewMessage.builder("next").after(HOUR).build());
    assertEquals(1, clock.next().getFired());
    assertEquals(TestServer.START.plus(Duration.ofHours(49)), clock.now());
    assertEquals(Stop.STOP_NOTHING, clock.next(clock.now().plus(HOUR)).getStop());
    assertThrows(DuetimeException.InvalidArgument.class, () -> clock.advanceTo(TestServer.START));
  }

  @Test
  void idleWaitsForHandlersAndAMoveForItsTimeout(TestServer server) {
    AtomicInteger ended = new AtomicInteger();
    server.subscribe("slow", delivery -> {
      Thread.sleep(300);
      ended.incrementAndGet();
      return Settlement.ack();
    });
    server.client().schedule(NewMessage.builder("slow").after(Duration.ZERO).build());
    server.idle();
    assertEquals(1, ended.get());
    assertEquals(TestServer.START, server.clock().now());
    server.client().schedule(NewMessage.builder("slow").after(HOUR).build());
    AdvanceRequest brief = AdvanceRequest.newBuilder().setBy(com.google.protobuf.Duration.newBuilder().setSeconds(7_200))
        .setLimits(AdvanceLimits.newBuilder().setUntilIdle(true)
            .setTimeout(com.google.protobuf.Duration.newBuilder().setNanos(50_000_000))).build();
    assertThrows(DuetimeException.DeadlineExceeded.class, () -> server.clock().advance(brief));
    List<HandOut> got = server.deliveries("slow");
    HandOut last = got.get(got.size() - 1);
    assertEquals(TestServer.START.plus(HOUR).getEpochSecond(), last.getTime().getSeconds());
    assertEquals(1, last.getAttempt());
    assertThrows(DuetimeException.DeadlineExceeded.class, () -> server.awaitSubscribers("nobody", 1, Duration.ZERO));
  }

  @Test
  void aKilledTestLeavesNoServer(@TempDir Path folder) throws Exception {
    Process test = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin/java").toString(),
        "-Djava.io.tmpdir=" + folder, "-cp", System.getProperty("java.class.path"), TestServerTest.class.getName())
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    assertTrue(test.inputReader().readLine().startsWith("127.0.0.1:"));
    assertTrue(serverIn(folder));
    test.destroyForcibly().waitFor();
    while (serverIn(folder)) Thread.sleep(5);
  }

  private static boolean serverIn(Path folder) throws Exception {
    try (var entries = Files.newDirectoryStream(folder, "duetime-test-*")) {
      return entries.iterator().hasNext();
    }
  }

  @Test
  void aServerThatCannotStartSaysWhy() {
    check(Path.of("/nowhere/duetimed"), TestServer.START, "or on PATH");
    check(null, Instant.parse("2300-01-01T00:00:00Z"), "test_clock");
    check(Path.of("false"), TestServer.START, "did not start");
  }

  private static void check(Path binary, Instant at, String text) {
    var error = assertThrows(DuetimeException.FailedPrecondition.class, () -> TestServer.start(binary, at));
    assertTrue(error.getMessage().contains(text), error.getMessage());
  }

  @Test
  void theReadmeHasItsTests() throws Exception {
    String test = Files.readString(Path.of("src/test/java/io/github/duetime/testing/ReadmeTest.java"));
    String readme = Files.readString(Path.of("README.md"));
    assertTrue(readme.contains("```java\n" + test.substring(test.indexOf("@ExtendWith")) + "```"));
  }
}
