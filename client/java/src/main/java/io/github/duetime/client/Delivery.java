// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.ByteString;
import io.github.duetime.v1.DeadLetter;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * One delivered message.
 *
 * @param proto the delivery as the server sent it, with all fields
 */
public record Delivery(io.github.duetime.v1.Delivery proto) {
  /** Returns the id of the message, the same in every attempt. */
  public String messageId() {
    return proto.getMessageId();
  }

  /** Returns the payload. */
  public ByteString payload() {
    return proto.getPayload();
  }

  /** Returns the payload, read as UTF-8. */
  public String text() {
    return proto.getPayload().toStringUtf8();
  }

  /** Returns the attributes of the message. */
  public Map<String, String> attributes() {
    return proto.getAttributesMap();
  }

  /** Returns the producer's name for the message; empty if it has none. */
  public String key() {
    return proto.getKey();
  }

  /** Returns 1 for the first delivery, as far as the server knows. */
  public int attempt() {
    return proto.getAttempt();
  }

  /** Returns true if this message may have been delivered before. */
  public boolean maybeRedelivered() {
    return proto.getMaybeRedelivered();
  }

  /** Returns the time from which the message could be delivered. */
  public Instant deliverTime() {
    return Times.fromProto(proto.getDeliverTime());
  }

  /** Returns when the server accepted the message. */
  public Instant acceptTime() {
    return Times.fromProto(proto.getAcceptTime());
  }

  /** Returns how much later than its time the server delivered the message. */
  public Duration lateness() {
    return Times.fromProto(proto.getLateness());
  }

  /** Returns the origin of a dead letter, and why it became one; empty for other messages. */
  public Optional<DeadLetter> deadLetter() {
    return proto.hasDeadLetter() ? Optional.of(proto.getDeadLetter()) : Optional.empty();
  }
}
