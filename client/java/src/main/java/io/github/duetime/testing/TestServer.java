// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.testing;

import io.github.duetime.client.ClientOptions;
import io.github.duetime.client.DeliveryHandler;
import io.github.duetime.client.DuetimeClient;
import io.github.duetime.client.DuetimeException;
import io.github.duetime.client.Subscriber;
import io.github.duetime.v1.AdminGrpc;
import io.github.duetime.v1.HandOut;
import io.github.duetime.v1.ListStreamsRequest;
import io.grpc.Status;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A server of its own for a test, with a clock that stands still. It is duetimed itself, over an empty directory that
 * {@link #close} removes. It ends with the process of the test, too. For one thread at a time.
 */
public final class TestServer implements AutoCloseable {
  /** Where the clock starts. The same in each run, so that a test has the same zone changes and weekdays. */
  public static final Instant START = Instant.parse("2030-01-01T00:00:00Z");

  /** How long a move of the clock, and a wait, may take on the machine's clock. */
  static final Duration TIMEOUT = Duration.ofSeconds(10);
  // A move by a request of one's own may take ten minutes.
  private static final Duration CALL_MAX = Duration.ofMinutes(11);
  private static final Duration READY_MAX = Duration.ofSeconds(30);
  private static final long POLL_MS = 2;
  private static final Pattern READY = Pattern.compile("\\] ready: .* grpc=(\\S+)");

  // Ends the server and removes its directory ($0) when close() closes the pipe, or when the process of the test has ended,
  // however that was. Signals of the terminal are for the test, which then closes the server.
  private static final String KEEPER = """
      trap '' HUP INT TERM
      "$@" & server=$!
      exec >/dev/null 2>&1
      read -r _
      kill -9 $server
      wait $server
      rm -rf "$0"
      """;

  private final Process process;
  private final String address;
  private final ServerClock clock;
  private final DuetimeClient control;
  private final List<DuetimeClient> clients = new ArrayList<>();
  private final List<Subscriber> subscribers = new ArrayList<>();

  private TestServer(Process process, String address) {
    this.process = process;
    this.address = address;
    control = DuetimeClient.create(ClientOptions.builder().target(address).deadline(CALL_MAX).build());
    clock = new ServerClock(control.admin());
  }

  /** Starts a server, as {@code start(null, START)}. */
  public static TestServer start() {
    return start(null, START);
  }

  /**
   * Starts a server at the time {@code at} of its clock. {@code binary} is the program duetimed; null: that of the environment
   * variable DUETIMED, or on PATH. Nothing is downloaded.
   *
   * @throws DuetimeException.FailedPrecondition if there is no such program, or it does not start
   */
  public static TestServer start(Path binary, Instant at) {
    String program = find(binary == null ? null : binary.toString());
    try {
      Path folder = Files.createTempDirectory("duetime-test-");
      Process process = new ProcessBuilder("sh", "-c", KEEPER, folder.toString(), program, "--init",
          "--data-dir=" + folder.resolve("data"), "--listen=127.0.0.1:0", "--metrics-listen=", "--disk-free-min-bytes=0",
          "--write-buffer-bytes=4MiB", "--test-clock=" + at, "--test-clock-frozen")
          .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
      StringBuffer log = new StringBuffer(); // until it is ready
      CompletableFuture<String> ready = new CompletableFuture<>();
      Thread reader = new Thread(() -> readLog(process.errorReader(), log, ready), "duetime-log");
      reader.setDaemon(true);
      reader.start();
      String address = ready.completeOnTimeout("", READY_MAX.toSeconds(), TimeUnit.SECONDS).join();
      if (!address.isEmpty()) return new TestServer(process, address);
      end(process);
      throw DuetimeException.of(Status.Code.FAILED_PRECONDITION, program + " did not start:\n" + log);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static String find(String binary) {
    String name = binary != null ? binary : System.getenv().getOrDefault("DUETIMED", "duetimed");
    for (String folder : name.contains("/") ? new String[] {""} : System.getenv("PATH").split(File.pathSeparator)) {
      Path path = folder.isEmpty() ? Path.of(name) : Path.of(folder, name);
      if (Files.isExecutable(path)) return path.toString();
    }
    throw DuetimeException.of(Status.Code.FAILED_PRECONDITION, "there is no program " + name + ": a test server needs duetimed, as the "
        + "argument of TestServer.start, in the environment variable DUETIMED, or on PATH");
  }

  private static void readLog(BufferedReader lines, StringBuffer log, CompletableFuture<String> ready) {
    try (lines) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        Matcher match = READY.matcher(line);
        if (match.find()) ready.complete(match.group(1));
        if (!ready.isDone()) log.append(line).append('\n');
      }
    } catch (IOException e) {
      log.append(e);
    }
    ready.complete("");
  }

  private static void end(Process process) {
    try {
      process.getOutputStream().close();
      process.waitFor();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Ends the server at once, with its clients and those of its subscribers that {@link #subscribe} started. Idempotent. */
  @Override
  public void close() {
    for (Subscriber one : subscribers) one.stop(Duration.ZERO, Duration.ZERO);
    for (DuetimeClient one : clients) one.close();
    control.close();
    end(process);
  }

  /** Returns host:port. */
  public String address() {
    return address;
  }

  /** Returns the clock of the server. */
  public ServerClock clock() {
    return clock;
  }

  /** Returns a new client of the server, which {@link #close} closes. */
  public DuetimeClient client() {
    DuetimeClient client = DuetimeClient.connect(address);
    clients.add(client);
    return client;
  }

  /** Starts a subscriber, and waits until the server has it. {@link #close} stops it, without waiting for its handler. */
  public Subscriber subscribe(String topic, DeliveryHandler handler) {
    Subscriber subscriber = client().subscriber(topic).start(handler);
    subscribers.add(subscriber);
    awaitSubscribers(topic, 1);
    return subscriber;
  }

  /**
   * Waits until the topic has so many subscribers. A program's subscriber connects in the background; without it, a move of the
   * clock hands out nothing.
   *
   * @throws DuetimeException.DeadlineExceeded after 10 s
   */
  public void awaitSubscribers(String topic, int count) {
    awaitSubscribers(topic, count, TIMEOUT);
  }

  void awaitSubscribers(String topic, int count, Duration timeout) {
    ListStreamsRequest request = ListStreamsRequest.newBuilder().setTopic(topic).build();
    long end = System.nanoTime() + timeout.toNanos();
    for (;;) {
      int there = control.admin().call(AdminGrpc.getListStreamsMethod(), request).getStreamsCount();
      if (there >= count) return;
      if (System.nanoTime() - end >= 0) {
        throw DuetimeException.of(Status.Code.DEADLINE_EXCEEDED,
            "the topic " + topic + " has " + there + " subscribers, and not " + count);
      }
      try {
        Thread.sleep(POLL_MS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw DuetimeException.of(Status.Code.CANCELLED, "the thread was interrupted");
      }
    }
  }

  /**
   * Waits until subscribers have settled all that is due. The clock stands still, but for a millisecond if just then something is
   * due.
   *
   * @throws DuetimeException.DeadlineExceeded after 10 s
   */
  public void idle() {
    clock.next(clock.now().plusMillis(1));
  }

  /**
   * Returns what the server handed out during moves of the clock, and {@link #idle}, in order. What a subscriber got in between is
   * not in it, and of one move the first 10,000.
   */
  public List<HandOut> deliveries(String topic) {
    return clock.handOuts().stream().filter(one -> one.getTopic().equals(topic)).toList();
  }
}
