// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.grpc.Status;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Makes the texts of errors of connections. gRPC's own texts are "io exception", and a stack of calls. */
final class ConnectionError {
  // How gRPC ends a call of which no member of a cell became the leader in time.
  private static final Pattern NO_LEADER =
      Pattern.compile("Last Pick Failure=Status\\{code=\\w+, description=(.*?), cause=(.*?)(\\n|\\}|$)");
  private static final String MAYBE_TLS =
      "the server closed the connection before it answered, as a server with TLS does; this client uses no TLS";

  private ConnectionError() {}

  /**
   * Returns the error of a call with a text that names the address and the cause. Returns errors of a server as they are.
   *
   * @param tls whether the client uses TLS
   * @param connected whether the client has been connected before
   */
  static DuetimeException explain(DuetimeException error, String address, boolean tls, boolean connected) {
    if (!error.reason().isEmpty()) return error;
    String text = error.getMessage();
    if (error.code() == Status.Code.DEADLINE_EXCEEDED) {
      Matcher noLeader = NO_LEADER.matcher(text);
      if (!noLeader.find()) return error;
      String failure = noLeader.group(2).equals("null") ? noLeader.group(1) : noLeader.group(2);
      return error.saying("no member of the cell led before the deadline; the last failure: " + failure);
    }
    if (error.code() != Status.Code.UNAVAILABLE && error.code() != Status.Code.INTERNAL) return error;
    boolean maybeTls = !tls && !connected;
    if (text.equals("Network closed for unknown reason")) {
      return error.saying(address + ": " + (maybeTls ? MAYBE_TLS : "the connection was closed"));
    }
    if (error.getCause() == null) return error;
    Throwable root = error.getCause();
    while (root.getCause() != null) root = root.getCause();
    String cause = root.getMessage() == null ? root.getClass().getSimpleName() : root.getMessage();
    if (cause.startsWith("not an SSL/TLS record")) {
      cause = "this client uses TLS, and the server does not";
    } else if (cause.contains("Hex dump for first 5 bytes: 1503")) {
      cause = "the server uses TLS, and this client does not";
    } else if (maybeTls && cause.contains("Connection reset")) {
      cause = MAYBE_TLS;
    } else if (!text.startsWith("io exception")) {
      cause = text + ": " + cause;
    }
    return error.saying(address + ": " + cause);
  }
}
