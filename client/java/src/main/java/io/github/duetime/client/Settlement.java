// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.Nack;
import io.github.duetime.v1.ReleaseLease;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Objects;

/**
 * How a handler settles a delivery.
 *
 * @param kind what happens to the message
 * @param delay the delay before the next delivery of a nack or release; null: by the retry policy, or none
 * @param reason why, kept with the dead letter if the message becomes one now; cut to 255 bytes of UTF-8
 */
public record Settlement(Kind kind, Duration delay, String reason) {
  // The longest reason that the server accepts. It ends the stream if it gets a longer one.
  private static final int REASON_BYTES_MAX = 255;
  private static final Settlement ACK = new Settlement(Kind.ACK, null, "");
  private static final Settlement LEAVE = new Settlement(Kind.LEAVE, null, "");

  /** What happens to the message. */
  public enum Kind {
    /** The message is done. */
    ACK,
    /** The message is delivered again. */
    NACK,
    /** The message is never delivered again, and kept as a dead letter. */
    DEAD_LETTER,
    /** The message was not begun: it is delivered again, and the attempt does not count as failed. */
    RELEASE,
    /** No answer: the message keeps its lease and its credit until the lease or the stream ends. */
    LEAVE
  }

  /** Cuts the reason. */
  public Settlement {
    Objects.requireNonNull(kind);
    reason = fitting(reason == null ? "" : reason);
  }

  /** The message is done. */
  public static Settlement ack() {
    return ACK;
  }

  /** Delivers the message again by the retry policy of the subscription. */
  public static Settlement nack(String reason) {
    return new Settlement(Kind.NACK, null, reason);
  }

  /** Delivers the message again after this delay, without regard to the policy. */
  public static Settlement nackAfter(Duration delay, String reason) {
    return new Settlement(Kind.NACK, delay, reason);
  }

  /** Never delivers the message again, and keeps it as a dead letter. */
  public static Settlement deadLetter(String reason) {
    return new Settlement(Kind.DEAD_LETTER, null, reason);
  }

  /** Gives the message back, as if the handler had not got it. */
  public static Settlement release() {
    return new Settlement(Kind.RELEASE, null, "");
  }

  /** As {@link #release()}; the message is delivered again after this delay. */
  public static Settlement releaseAfter(Duration delay) {
    return new Settlement(Kind.RELEASE, delay, "");
  }

  /** Gives no answer: the message comes again when its lease ends. */
  public static Settlement leave() {
    return LEAVE;
  }

  /** Makes the message of the protos. Not for LEAVE, which settles nothing. */
  io.github.duetime.v1.Settlement toProto(String token) {
    var proto = io.github.duetime.v1.Settlement.newBuilder().setLeaseToken(token);
    switch (kind) {
      case ACK -> { }
      case NACK -> {
        Nack.Builder nack = proto.getNackBuilder().setReason(reason);
        if (delay != null) nack.setDelay(Times.toProto(delay));
      }
      case DEAD_LETTER -> proto.getDeadLetterBuilder().setReason(reason);
      case RELEASE -> {
        ReleaseLease.Builder release = proto.getReleaseBuilder();
        if (delay != null) release.setDelay(Times.toProto(delay));
      }
      case LEAVE -> throw new IllegalStateException("a delivery that was left has no settlement");
    }
    return proto.build();
  }

  /** Cuts a text at a character boundary of UTF-8. */
  private static String fitting(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    if (bytes.length <= REASON_BYTES_MAX) return text;
    int size = REASON_BYTES_MAX;
    while (size > 0 && (bytes[size] & 0xC0) == 0x80) size--;
    return new String(bytes, 0, size, StandardCharsets.UTF_8);
  }
}
