// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import java.security.SecureRandom;
import java.util.HexFormat;

/** Makes random names for requests and operations. */
final class RandomId {
  private static final SecureRandom SOURCE = new SecureRandom();

  private RandomId() {}

  /** Returns 128 random bits in hex. */
  static String next() {
    byte[] bytes = new byte[16];
    SOURCE.nextBytes(bytes);
    return HexFormat.of().formatHex(bytes);
  }
}
