// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

import io.github.duetime.v1.CivilTime;
import io.github.duetime.v1.TopicKey;
import java.util.function.Consumer;

/** Writes times and targets to requests, whose builders have the same setters but no common type. */
final class Requests {
  private Requests() {}

  /** Calls the setter of the kind of time that {@code when} is. */
  static void fill(When when, Consumer<com.google.protobuf.Duration> delay, Consumer<com.google.protobuf.Timestamp> time,
      Consumer<CivilTime> civilTime) {
    if (when instanceof When.After after) {
      delay.accept(Times.toProto(after.delay()));
    } else if (when instanceof When.At at) {
      time.accept(Times.toProto(at.time()));
    } else if (when instanceof When.Local local) {
      civilTime.accept(CivilTime.newBuilder().setLocal(local.time()).setTimeZone(local.timeZone()).build());
    }
  }

  /** Calls the setter of the kind of name that {@code target} is. */
  static void fill(Target target, Consumer<String> id, Consumer<TopicKey> key) {
    if (target instanceof Target.Id byId) {
      id.accept(byId.id());
    } else if (target instanceof Target.Key byKey) {
      key.accept(TopicKey.newBuilder().setTopic(byKey.topic()).setKey(byKey.key()).build());
    }
  }
}
