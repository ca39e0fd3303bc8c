// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

/** A delivery for a handler, and the number of its stream. */
record Work(Delivery delivery, long stream) {
  String token() {
    return delivery.proto().getLeaseToken();
  }

  /** Returns true if the server must confirm that the handler begins. */
  boolean confirms() {
    return delivery.proto().getConfirmBegun();
  }
}
