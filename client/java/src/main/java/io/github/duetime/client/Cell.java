// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.grpc.Attributes;
import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.Status;
import io.grpc.StatusOr;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** Several servers of which one leads, the members of a cell: resolves their addresses for one channel. */
final class Cell extends NameResolver {
  /**
   * Calls go to the member whose health is SERVING, which is the leader. While no member leads, calls wait for one until
   * their deadline.
   */
  static final Map<String, ?> FOLLOW_THE_LEADER = Map.of(
      "loadBalancingConfig", List.of(Map.of("round_robin", Map.of())),
      "healthCheckConfig", Map.of("serviceName", "duetime.v1.Messages"),
      "methodConfig", List.of(Map.of("name", List.of(Map.of()), "waitForReady", true)));
  /** The pause after NOT_LEADER. The health of the new leader arrives meanwhile. */
  static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

  private static final String SCHEME = "duetime-cell";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new Provider());
  }

  private final List<String> members = new ArrayList<>();
  private final Args args;
  private final AtomicBoolean resolving = new AtomicBoolean();
  private Listener2 listener;

  private Cell(String addresses, Args args) {
    for (String member : addresses.split(",", -1)) {
      if (!member.strip().matches(".+:\\d{1,5}")) {
        throw new IllegalArgumentException("each address of several must be host:port");
      }
      members.add(member.strip());
    }
    this.args = args;
  }

  /** Returns the target of a channel to these addresses. */
  static String target(String addresses) {
    try {
      return new URI(SCHEME, null, "/" + addresses, null).toString();
    } catch (URISyntaxException e) {
      throw new IllegalArgumentException(e);
    }
  }

  @Override
  public String getServiceAuthority() {
    return members.get(0);
  }

  @Override
  public void start(Listener2 value) {
    listener = value;
    refresh();
  }

  @Override
  public void refresh() {
    if (resolving.compareAndSet(false, true)) args.getOffloadExecutor().execute(this::resolve);
  }

  private void resolve() {
    List<EquivalentAddressGroup> groups = new ArrayList<>();
    Status failure = Status.UNAVAILABLE;
    for (String member : members) {
      int colon = member.lastIndexOf(':');
      List<SocketAddress> addresses = new ArrayList<>();
      try {
        for (InetAddress address : InetAddress.getAllByName(member.substring(0, colon))) {
          addresses.add(new InetSocketAddress(address, Integer.parseInt(member.substring(colon + 1))));
        }
        // The certificate of each member is checked against the member's own name.
        groups.add(new EquivalentAddressGroup(addresses,
            Attributes.newBuilder().set(EquivalentAddressGroup.ATTR_AUTHORITY_OVERRIDE, member).build()));
      } catch (UnknownHostException e) {
        // Another member may lead. The next refresh tries this one again.
        failure = Status.UNAVAILABLE.withDescription("unknown host: " + member).withCause(e);
      }
    }
    StatusOr<List<EquivalentAddressGroup>> result =
        groups.isEmpty() ? StatusOr.fromStatus(failure) : StatusOr.fromValue(groups);
    resolving.set(false);
    args.getSynchronizationContext().execute(
        () -> listener.onResult2(ResolutionResult.newBuilder().setAddressesOrError(result).build()));
  }

  @Override
  public void shutdown() {}

  private static final class Provider extends NameResolverProvider {
    @Override
    public NameResolver newNameResolver(URI target, Args args) {
      return SCHEME.equals(target.getScheme()) ? new Cell(target.getPath().substring(1), args) : null;
    }

    @Override
    public String getDefaultScheme() {
      return SCHEME;
    }

    @Override
    protected boolean isAvailable() {
      return true;
    }

    @Override
    protected int priority() {
      return 0; // Another provider is the default of targets without a scheme.
    }
  }
}
