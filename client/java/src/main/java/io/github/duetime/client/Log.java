// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.lang.System.Logger.Level;

/** What the library logs, to the {@link System.Logger} "io.github.duetime.client". It never throws. Thread-safe. */
final class Log {
  private static final System.Logger LOGGER = System.getLogger("io.github.duetime.client");

  private Log() {}

  /** {@code cause} may be null. */
  static void write(Level level, String text, Throwable cause) {
    try {
      LOGGER.log(level, text, cause);
    } catch (Throwable ignored) {
      // The work of the caller matters more.
    }
  }

  /** Calls a function of the user. Logs what it throws. */
  static void guard(String name, Runnable call) {
    try {
      call.run();
    } catch (Throwable e) {
      write(Level.ERROR, name + " threw an exception", e);
    }
  }

  /** Returns the text of what a function of the user threw. */
  static String textOf(Throwable error) {
    try {
      return error.toString();
    } catch (Throwable ignored) {
      return error.getClass().getName();
    }
  }
}
