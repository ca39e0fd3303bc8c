// SPDX-License-Identifier: Apache-2.0
//
// Data about a message outside its record: index entries (its names), and locators (its new place,
// or its tombstone). FORMAT.md documents the encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

// A 128-bit hash of a request's content. Equal fingerprints mean equal requests.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;

  friend constexpr bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// The index entry of a key or a request id.
struct IndexEntry {
  MessageId id;
  Fingerprint content;
  // When the entry expires, UTC milliseconds. The store may drop it from then on. 0: never, because
  // the message is pending.
  uint64_t expire_ms = 0;
  // The answer to the request: outcome and times. Only for request ids.
  uint8_t outcome = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint64_t old_deliver_ms = 0;
  // The message from which the request took the key; no id if there was none. Only for request ids.
  MessageId previous = {};

  friend constexpr bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

// How a message ended.
enum class EndState : uint8_t {
  kAcked = 1,
  kCancelled = 2,
  kExpired = 3,
  kDeadLettered = 4,
  // An occurrence was skipped because the previous one had not ended.
  kSkipped = 5,
  // Dropped by the retention of its last subscription, or because that subscription was deleted.
  kDropped = 6,
};

// A tombstone names no more dead letters than this, so that its size is bounded.
inline constexpr size_t kDeadLettersNamedMax = 5;

// The record of an ended message. Times in UTC milliseconds.
struct Tombstone {
  EndState state{};
  TopicId topic{};
  uint32_t attempts = 0;
  uint32_t payload_bytes = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  // When the message fired and when it was first delivered, in the run that ended it. 0: not in
  // that run.
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t end_ms = 0;
  // When the tombstone expires. The store may drop it from then on.
  uint64_t expire_ms = 0;
  uint64_t revision = 0;
  // True if a cancel ended the message after it was, or may have been, delivered.
  bool redelivery_stopped = false;
  // The dead letters that subscriptions made of the message; at most kDeadLettersNamedMax.
  std::vector<MessageId> dead_letters = {};
  std::string key;

  friend bool operator==(const Tombstone&, const Tombstone&) = default;
};

// Where an id leads if no message lies at the id's own due time.
struct Locator {
  // The due time of the message's current key. Meaningless with a tombstone.
  uint64_t due_ms = 0;
  std::optional<Tombstone> tombstone;

  friend bool operator==(const Locator&, const Locator&) = default;
};

std::string EncodeIndexEntry(const IndexEntry& entry);
// DATA_LOSS for bytes that no encoder writes.
absl::StatusOr<IndexEntry> DecodeIndexEntry(absl::string_view bytes);

// Encodes a row of `traces` for one message.
std::string EncodeLocator(const Locator& locator);

// Adds a tombstone to a row of `traces`, or begins the row if `row` is empty. Returns false, and
// does nothing, if the row is full or its messages ended in another way. REQUIRES: the revision is
// 0, and `id` has the same high half as the id of the row.
//
// The messages of a row have the same state, flag, topic, end time and expiry. The id of the row is
// the id of the message that was added first. A row has at most 64 messages, because 64 ids share a
// high half. Acks of messages that were accepted and are due in the same order share rows.
bool AddTombstone(const MessageId& id, const Tombstone& tombstone, std::string* row);

// Returns the locator or tombstone of the message `id` from the row of `traces` whose id is `row`;
// nullopt if the row has neither. DATA_LOSS for bytes that no encoder writes.
absl::StatusOr<std::optional<Locator>> ReadTraceRow(const MessageId& row, absl::string_view bytes,
                                                    const MessageId& id);

// Returns the range [first, second) of ids whose rows can hold the tombstone of `id`.
inline std::pair<MessageId, MessageId> TraceNeighbours(const MessageId& id) {
  return {{.high = id.high, .low = 0}, {.high = id.high + 1, .low = 0}};
}

// Reads expire_ms, which both encodings begin with, so that a compaction need not decode the rest.
// 0: does not expire. nullopt if `bytes` is too short.
std::optional<uint64_t> ExpireTimeOf(absl::string_view bytes);

}  // namespace duetime::storage
