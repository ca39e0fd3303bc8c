// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import com.google.protobuf.ByteString;
import io.github.duetime.v1.Message;
import io.github.duetime.v1.ScheduleRequest;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.ZoneId;
import java.util.Map;

/**
 * What to deliver, and when. The topic and the time are required: without a time the server refuses the message, with
 * {@code DELIVER_TIME_MISSING}. {@code ScheduleRequest} in messages.proto has the same names and documents the bounds.
 * Immutable.
 */
public final class NewMessage {
  private final ScheduleRequest proto;

  private NewMessage(ScheduleRequest proto) {
    this.proto = proto;
  }

  /** Returns a builder of a message of this topic. */
  public static Builder builder(String topic) {
    return new Builder(ScheduleRequest.newBuilder().setTopic(topic));
  }

  /** Returns a message like this request. */
  public static NewMessage of(ScheduleRequest request) {
    return new NewMessage(request);
  }

  /** Returns a builder that begins with this message. */
  public Builder toBuilder() {
    return new Builder(proto.toBuilder());
  }

  /** Returns the request that schedules the message. */
  public ScheduleRequest toProto() {
    return proto;
  }

  /** Builds a message. */
  public static final class Builder {
    private final ScheduleRequest.Builder proto;

    private Builder(ScheduleRequest.Builder proto) {
      this.proto = proto;
    }

    /** Sets the bytes to deliver. */
    public Builder payload(byte[] value) {
      return payload(ByteString.copyFrom(value));
    }

    /** Sets the bytes to deliver. */
    public Builder payload(ByteString value) {
      proto.setPayload(value);
      return this;
    }

    /** Sets the bytes to deliver: this text in UTF-8. */
    public Builder payload(String value) {
      return payload(ByteString.copyFromUtf8(value));
    }

    /** Adds an attribute, which is delivered with the payload. */
    public Builder attribute(String name, String value) {
      proto.putAttributes(name, value);
      return this;
    }

    /** Adds attributes. */
    public Builder attributes(Map<String, String> values) {
      proto.putAllAttributes(values);
      return this;
    }

    /** Sets the time of delivery. A message after a delay of zero is due at once. */
    public Builder when(When value) {
      Requests.fill(value, proto::setDelay, proto::setDeliverTime, proto::setCivilTime);
      return this;
    }

    /** As {@code when(When.after(delay))}. */
    public Builder after(Duration delay) {
      return when(When.after(delay));
    }

    /** As {@code when(When.at(time))}. */
    public Builder at(Instant time) {
      return when(When.at(time));
    }

    /** As {@code when(When.local(time, timeZone))}. */
    public Builder at(LocalDateTime time, ZoneId timeZone) {
      return when(When.local(time, timeZone));
    }

    /** Sets the producer's name for the message. Calls can find, move, replace and cancel the message by this key. */
    public Builder key(String value) {
      proto.setKey(value);
      return this;
    }

    /** Sets what happens if the topic has a pending message with this key. Default: FAIL. For a program that may replay: ONCE. */
    public Builder onConflict(ScheduleRequest.OnConflict value) {
      proto.setOnConflict(value);
      return this;
    }

    /** With PUSH_BACK: sets the longest total delay, which counts from the acceptance. Zero: no bound. */
    public Builder maxWait(Duration value) {
      proto.setMaxWait(Times.toProto(value));
      return this;
    }

    /** True: the call replaces a message but never creates one. */
    public Builder onlyIfExists(boolean value) {
      proto.setOnlyIfExists(value);
      return this;
    }

    /** Makes a repeat of this request safe for an hour. Without one the library chooses a random one, see {@link Repeat}. */
    public Builder requestId(String value) {
      proto.setRequestId(value);
      return this;
    }

    /** True: the server checks and decides as usual, but changes nothing. */
    public Builder validateOnly(boolean value) {
      proto.setValidateOnly(value);
      return this;
    }

    /** Adds a label for lists and filters. */
    public Builder label(String name, String value) {
      proto.putLabels(name, value);
      return this;
    }

    /** Adds labels. */
    public Builder labels(Map<String, String> values) {
      proto.putAllLabels(values);
      return this;
    }

    /** First deliveries of messages with the same ordering key start in order. */
    public Builder orderingKey(String value) {
      proto.setOrderingKey(value);
      return this;
    }

    /** Sets how long after its time the message is worth delivering. Default: the ttl of the topic, if it has one. */
    public Builder ttl(Duration value) {
      proto.setTtl(Times.toProto(value));
      return this;
    }

    /** Sets until when the message is worth delivering. */
    public Builder expireTime(Instant value) {
      proto.setExpireTime(Times.toProto(value));
      return this;
    }

    /** Sets what happens to the message after its time to live. Default: DELIVER. */
    public Builder latePolicy(Message.LatePolicy value) {
      proto.setLatePolicy(value);
      return this;
    }

    /** Delivers the message at a point within this span after its time. The id of the message decides the point. */
    public Builder spread(Duration value) {
      proto.setSpread(Times.toProto(value));
      return this;
    }

    /** Returns the message. */
    public NewMessage build() {
      return new NewMessage(proto.build());
    }
  }
}
