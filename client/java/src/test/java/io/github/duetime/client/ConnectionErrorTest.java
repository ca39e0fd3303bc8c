// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What a call says if it cannot reach the server. */
@Timeout(30)
class ConnectionErrorTest {
  private static ClientOptions.Builder options(String target) {
    return ClientOptions.builder().target(target).attemptsMax(1).deadline(Duration.ofSeconds(10));
  }

  private static String errorOf(ClientOptions.Builder options) {
    try (DuetimeClient client = DuetimeClient.create(options.build())) {
      return assertThrows(DuetimeException.class, client::serverInfo).getMessage();
    }
  }

  /** Accepts connections, and answers each with these bytes and its end. Null: resets the connection. */
  private static ServerSocket listen(byte[] answer) throws IOException {
    ServerSocket listener = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
    Thread thread = new Thread(() -> {
      try {
        for (;;) {
          Socket socket = listener.accept();
          if (answer == null) {
            socket.getInputStream().read();
            socket.setSoLinger(true, 0);
            socket.close();
            continue;
          }
          socket.getOutputStream().write(answer);
          socket.shutdownOutput();
        }
      } catch (IOException end) {
        // The listener was closed.
      }
    });
    thread.setDaemon(true);
    thread.start();
    return listener;
  }

  @Test
  void anErrorNamesTheAddressAndTheCause() throws IOException {
    ServerSocket closed = listen(new byte[0]);
    closed.close();
    String address = "127.0.0.1:" + closed.getLocalPort();
    String text = errorOf(options(address));
    assertTrue(text.startsWith(address + ": ") && text.contains("Connection refused"), text);
    assertFalse(text.contains("io exception"), text);
    text = errorOf(options("unix:/no-such.sock"));
    assertTrue(text.matches("unix:/no-such.sock: .+"), text);
    text = errorOf(options("nohost.invalid:7788"));
    assertTrue(text.startsWith("nohost.invalid:7788: Unable to resolve host"), text);
  }

  @Test
  void anErrorSaysThatOneSideAloneUsesTls() throws IOException {
    record Case(String answer, boolean tls, String text) {}
    String closed = "the server closed the connection before it answered, as a server with TLS does; this client uses no TLS";
    for (Case of : new Case[] {
        new Case("", false, closed), new Case(null, false, closed),
        new Case("15030300020246", false, "the server uses TLS, and this client does not"),
        new Case("485454502f312e312034303020426164", false, "First received frame was not SETTINGS"),
        new Case("000000040000000000", true, "this client uses TLS, and the server does not")}) {
      try (ServerSocket server = listen(of.answer == null ? null : HexFormat.of().parseHex(of.answer))) {
        String address = "127.0.0.1:" + server.getLocalPort();
        String text = errorOf(of.tls ? options(address).tls() : options(address));
        assertTrue(text.startsWith(address + ": ") && text.contains(of.text), of + ": " + text);
        assertFalse(text.contains("\n"), text);
      }
    }
    Server plain = Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create()).build().start();
    String text = errorOf(options("127.0.0.1:" + plain.getPort()).tls());
    assertTrue(text.endsWith(": this client uses TLS, and the server does not"), text);
    plain.shutdownNow();
  }

  @Test
  void aCellWithoutALeaderNamesTheLastFailure() {
    String text = errorOf(options("127.0.0.1:1,127.0.0.1:2").deadline(Duration.ofMillis(300)));
    assertTrue(text.matches("no member of the cell led before the deadline; the last failure: .*Connection refused.*"), text);
  }
}
