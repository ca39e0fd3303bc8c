// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.lang.System.Logger.Level;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;

/**
 * Logs what happens to the connection of a subscriber: each change once, and a failure that lasts ever more rarely. The
 * caller passes the time of System.nanoTime. Thread-safe.
 */
final class ConnectionLog {
  private final String who;
  private final String address;
  private final BiConsumer<Level, String> log;
  private boolean opened;
  private boolean failing;
  private long failingSince;
  private Rarely rarely = new Rarely();

  ConnectionLog(String who, String address, BiConsumer<Level, String> log) {
    this.who = who;
    this.address = address;
    this.log = log;
  }

  /** A stream was opened. */
  synchronized void onOpen(long now) {
    if (failing || !opened) {
      String after = failing ? " after " + TimeUnit.NANOSECONDS.toSeconds(now - failingSince) + " s" : "";
      write(Level.INFO, (opened ? "is back at " : "is connected to ") + address + after);
    }
    opened = true;
    failing = false;
  }

  /** A stream has ended, or could not be opened, and will be tried again. */
  synchronized void onFailure(DuetimeException error, long now) {
    boolean lost = opened && !failing;
    if (lost) rarely = new Rarely();
    if (!failing) failingSince = now;
    failing = true;
    if (!rarely.may(now)) return;
    // Only an error of a server has a reason.
    String what = lost ? "lost " : error.reason().isEmpty() ? "cannot reach " : "is refused for now by ";
    write(Level.WARNING, what + address + ": " + textOf(error));
  }

  /** The subscriber has ended: the server refused it for good, or the library cannot go on. */
  synchronized void onEnd(DuetimeException error) {
    write(Level.ERROR, "is refused by " + address + " and ends: " + error.code() + ": " + textOf(error));
  }

  /** Returns the text without the address, which the line has already. */
  private String textOf(DuetimeException error) {
    String text = error.getMessage();
    return text.startsWith(address + ": ") ? text.substring(address.length() + 2) : text;
  }

  private void write(Level level, String text) {
    log.accept(level, who + " " + text);
  }
}
