// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.grpc.Status;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Supplier;

/** Where the server is, how to talk to it, the deadline of calls and the retries. Immutable. */
public final class ClientOptions {
  private static final Set<String> TRACE_FIELDS = Set.of("traceparent", "tracestate");

  private final Builder from;

  private ClientOptions(Builder from) {
    this.from = from;
  }

  /** Returns a builder with the defaults: 127.0.0.1:7788 without TLS, and a deadline of 10 s. */
  public static Builder builder() {
    return new Builder();
  }

  String target() {
    return from.target;
  }

  boolean isCell() {
    return from.target.contains(",");
  }

  Path tlsCa() {
    return from.tlsCa;
  }

  Path tlsCert() {
    return from.tlsCert;
  }

  Path tlsKey() {
    return from.tlsKey;
  }

  boolean usesTls() {
    return from.tls || from.tlsCa != null || from.tlsCert != null;
  }

  Supplier<String> token() {
    return from.token;
  }

  Duration deadline() {
    return from.deadline;
  }

  int attemptsMax() {
    return from.attemptsMax;
  }

  BackoffOptions backoff() {
    return from.backoff;
  }

  boolean separateCalls() {
    return from.separateCalls;
  }

  Supplier<Map<String, String>> traceContext() {
    return from.traceContext;
  }

  /** Returns the trace context of the calling thread. Empty without one, and if the user's function throws. */
  Map<String, String> currentTrace() {
    if (from.traceContext == null) return Map.of();
    Map<String, String> fields = new HashMap<>();
    Log.guard("traceContext", () -> from.traceContext.get().forEach((name, value) -> {
      if (TRACE_FIELDS.contains(name) && !value.isEmpty()) fields.put(name, value);
    }));
    return fields;
  }

  /** Builds options. */
  public static final class Builder {
    private String target = "127.0.0.1:7788";
    private boolean tls;
    private Path tlsCa;
    private Path tlsCert;
    private Path tlsKey;
    private Supplier<String> token;
    private Duration deadline = Duration.ofSeconds(10);
    private int attemptsMax;
    private BackoffOptions backoff = BackoffOptions.DEFAULT;
    private boolean separateCalls;
    private Supplier<Map<String, String>> traceContext;

    private Builder() {}

    private Builder(Builder from) {
      target = from.target;
      tls = from.tls;
      tlsCa = from.tlsCa;
      tlsCert = from.tlsCert;
      tlsKey = from.tlsKey;
      token = from.token;
      deadline = from.deadline;
      attemptsMax = from.attemptsMax;
      backoff = from.backoff;
      separateCalls = from.separateCalls;
      traceContext = from.traceContext;
    }

    /**
     * Sets the server: {@code host:port} or {@code unix:/path/to.sock}. Several, {@code host:port,host:port}, are the
     * members of a cell: calls, streams and subscribers go to the member that leads.
     */
    public Builder target(String value) {
      target = Objects.requireNonNull(value);
      return this;
    }

    /** Uses TLS, and trusts the certificates that the Java runtime trusts. */
    public Builder tls() {
      tls = true;
      return this;
    }

    /** Uses TLS, and trusts the certificates of this file (PEM) only. */
    public Builder tlsCa(Path file) {
      tlsCa = Objects.requireNonNull(file);
      return this;
    }

    /** Uses TLS with the client's own certificate and key, for servers that ask for them: files in PEM, the key in PKCS #8. */
    public Builder tlsCertificate(Path certificate, Path key) {
      tlsCert = Objects.requireNonNull(certificate);
      tlsKey = Objects.requireNonNull(key);
      return this;
    }

    /** Sends {@code authorization: Bearer TOKEN} with each call and stream. Requires TLS. */
    public Builder token(String value) {
      Objects.requireNonNull(value);
      return token(() -> value);
    }

    /** As {@link #token(String)}; each call and stream asks for the token. The supplier must be brief and thread-safe. */
    public Builder token(Supplier<String> value) {
      token = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Sets the deadline of a call, including its retries. With zero or less every call fails with DEADLINE_EXCEEDED.
     */
    public Builder deadline(Duration value) {
      deadline = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Sets the most tries of a call that may be repeated. 1: no repeat. Default: 0, no limit but the deadline of the call and the
     * client's budget of repeats, which bounds the load on a server that fails.
     */
    public Builder attemptsMax(int value) {
      attemptsMax = value;
      return this;
    }

    /** Sets the waits between tries. A wait is never shorter than the server requests. */
    public Builder backoff(BackoffOptions value) {
      backoff = Objects.requireNonNull(value);
      return this;
    }

    /**
     * True: each schedule, cancel, reschedule and get is a call of its own. Default: false, the calls of all threads share
     * one stream, which costs the client and the server less.
     */
    public Builder separateCalls(boolean value) {
      separateCalls = value;
      return this;
    }

    /**
     * Sets the function that returns the trace context of a call: {@code traceparent} and perhaps {@code tracestate}, as W3C
     * Trace Context defines them. Each call asks it once, on the thread that makes the call. It must be brief and thread-safe.
     */
    public Builder traceContext(Supplier<Map<String, String>> value) {
      traceContext = Objects.requireNonNull(value);
      return this;
    }

    /**
     * Returns the options.
     *
     * @throws DuetimeException.InvalidArgument if the target is empty, or there is a token without TLS
     */
    public ClientOptions build() {
      ClientOptions options = new ClientOptions(new Builder(this));
      if (target.isEmpty()) throw invalid("no server given: need host:port or unix:/path");
      if (token != null && !options.usesTls()) throw invalid("a token needs TLS, which keeps it secret");
      return options;
    }

    private static DuetimeException invalid(String message) {
      return DuetimeException.of(Status.Code.INVALID_ARGUMENT, message);
    }
  }
}
