// SPDX-License-Identifier: Apache-2.0
package io.github.duetime.client;

/** Names a message by its id, or by its topic and key. */
public sealed interface Target {
  /**
   * A message by its id.
   *
   * @param id the id from schedule
   */
  record Id(String id) implements Target {}

  /**
   * A message by its key: the pending message with this key, or the last one that ended.
   *
   * @param topic the topic
   * @param key the key from schedule
   */
  record Key(String topic, String key) implements Target {}

  /** Returns the message with this id. */
  static Target id(String id) {
    return new Id(id);
  }

  /** Returns the message of the topic with this key. */
  static Target key(String topic, String key) {
    return new Key(topic, key);
  }
}
