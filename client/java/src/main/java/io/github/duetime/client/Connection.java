// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ClientInterceptors.CheckedForwardingClientCall;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/** A channel of gRPC to the server or the cell of the options, and its settings. Connects at the first call. Thread-safe. */
final class Connection implements AutoCloseable {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
  // No limit. The server's configuration sets the limits of messages and batches. A limit here would refuse answers and
  // deliveries that the server allows, and a refused delivery ends its stream each time.
  private static final int RECEIVE_BYTES_MAX = Integer.MAX_VALUE;
  // gRPC's pauses between connection attempts grow to 2 minutes. The backoff of this library decides when to try, and
  // this is the shortest time between two attempts.
  private static final long WAKE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);
  // The server allows a ping every 10 s.
  private static final int KEEPALIVE_SECONDS = 30;
  private static final int KEEPALIVE_TIMEOUT_SECONDS = 10;
  // A member whose machine vanished is found sooner, because another one takes over.
  private static final int MEMBER_KEEPALIVE_SECONDS = 15;
  private static final int MEMBER_KEEPALIVE_TIMEOUT_SECONDS = 3;

  private final ManagedChannel managed;
  private final Channel channel;
  private final String address;
  private final Supplier<String> token;
  private final boolean toCell;
  private final boolean tls;
  // A server has answered once.
  private volatile boolean connected;
  private final AtomicLong woken = new AtomicLong(System.nanoTime() - WAKE_NANOS);

  private Connection(ManagedChannel managed, String address, Supplier<String> token, boolean toCell, boolean tls) {
    this.managed = managed;
    this.address = address;
    this.token = token;
    this.channel = token == null ? managed : ClientInterceptors.intercept(managed, new SendToken(token));
    this.toCell = toCell;
    this.tls = tls;
    noteConnected();
    if (toCell) keepTrying();
  }

  /** Opens a channel. Throws INVALID_ARGUMENT if the target is none, or a TLS file is bad or cannot be read. */
  static Connection open(ClientOptions options) {
    try {
      return new Connection(channelTo(options), options.target(), options.token(), options.isCell(), options.usesTls());
    } catch (IOException | RuntimeException e) {
      // gRPC throws several types, and what it opens depends on the options only.
      throw DuetimeException.of(Status.Code.INVALID_ARGUMENT, "cannot use the server or its TLS files: " + e.getMessage(), e);
    }
  }

  private static ManagedChannel channelTo(ClientOptions options) throws IOException {
    ManagedChannelBuilder<?> builder = options.isCell()
        ? Grpc.newChannelBuilder(Cell.target(options.target()), credentials(options))
            .defaultServiceConfig(Cell.FOLLOW_THE_LEADER)
        : Grpc.newChannelBuilder(options.target(), credentials(options));
    return builder
        .maxInboundMessageSize(RECEIVE_BYTES_MAX)
        .keepAliveTime(options.isCell() ? MEMBER_KEEPALIVE_SECONDS : KEEPALIVE_SECONDS, TimeUnit.SECONDS)
        .keepAliveTimeout(
            options.isCell() ? MEMBER_KEEPALIVE_TIMEOUT_SECONDS : KEEPALIVE_TIMEOUT_SECONDS, TimeUnit.SECONDS)
        // Caller repeats calls.
        .disableRetry()
        // Ignores the proxy settings of the environment, because they are meant for the web.
        .proxyDetector(address -> null)
        .build();
  }

  /** Returns a connection on this channel, for tests without a network too. */
  static Connection of(ManagedChannel managed, Supplier<String> token) {
    return new Connection(managed, managed.authority(), token, false, false);
  }

  private static ChannelCredentials credentials(ClientOptions options) throws IOException {
    if (!options.usesTls()) return InsecureChannelCredentials.create();
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
    if (options.tlsCa() != null) tls.trustManager(options.tlsCa().toFile());
    if (options.tlsCert() != null) tls.keyManager(options.tlsCert().toFile(), options.tlsKey().toFile());
    return tls.build();
  }

  Channel channel() {
    return channel;
  }

  /** Returns the token that a call would send now. Null without one, and if the user's function throws. */
  String token() {
    try {
      return token == null ? null : token.get();
    } catch (Throwable e) {
      return null; // A call reports it.
    }
  }

  /**
   * Returns false while no member of a cell is known to lead. A call by itself then waits for a leader, and its error says
   * why there was none.
   */
  boolean maySend() {
    return !toCell || managed.getState(false) == ConnectivityState.READY;
  }

  /** Returns the address or the addresses, for people. */
  String address() {
    return address;
  }

  boolean isClosed() {
    return managed.isShutdown();
  }

  /** Returns true if another member leads. The call changed nothing, so any call may be made again. */
  boolean refusedByStandby(DuetimeException error) {
    return toCell && error.reason().equals("NOT_LEADER");
  }

  private void noteConnected() {
    ConnectivityState state = managed.getState(false);
    if (state == ConnectivityState.READY) connected = true;
    else managed.notifyWhenStateChanged(state, this::noteConnected);
  }

  /** Makes the error of a call from what gRPC threw. */
  DuetimeException errorOf(Throwable error) {
    return ConnectionError.explain(DuetimeException.of(error), address, tls, connected);
  }

  /** Tries each second to reach the members that are not connected, because one of them may lead next. */
  private void keepTrying() {
    if (managed.isShutdown()) return;
    managed.resetConnectBackoff();
    CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(this::keepTrying);
  }

  /** Ends the pause of a channel that could not connect, so that the next call makes it try again. */
  void wake() {
    if (managed.getState(false) != ConnectivityState.TRANSIENT_FAILURE) return;
    long now = System.nanoTime();
    long last = woken.get();
    if (now - last >= WAKE_NANOS && woken.compareAndSet(last, now)) managed.resetConnectBackoff();
  }

  /** Ends all calls and streams. */
  @Override
  public void close() {
    managed.shutdownNow();
  }

  /** Adds the token to each call. */
  private record SendToken(Supplier<String> token) implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      return new CheckedForwardingClientCall<Q, A>(next.newCall(method, options)) {
        @Override
        protected void checkedStart(Listener<A> listener, Metadata headers) throws StatusException {
          try {
            headers.put(AUTHORIZATION, "Bearer " + Objects.requireNonNull(token.get()));
          } catch (Throwable e) {
            // The error of this call only: a subscriber tries again.
            throw Status.UNKNOWN.withDescription("no token: " + Log.textOf(e)).withCause(e).asException();
          }
          delegate().start(listener, headers);
        }
      };
    }
  }
}
