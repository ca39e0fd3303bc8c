// SPDX-License-Identifier: Apache-2.0
//
// The words that the journal and the store share with the rooms above them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "storage/message_id.h"

namespace duetime::storage {

// A topic's number in this data directory; its name is in the topic table. Never reused.
enum class TopicId : uint32_t {};

// What a record does when it is applied. Written in this order of ideas: a message, its life, the
// marks.
enum class RecordType : uint8_t {
  // Puts a message. Uses shard, key, value (EncodeMessageRecord's bytes).
  kAccept = 1,
  // Removes a message for good: cancelled or settled. Uses shard, key. Removing what is absent is
  // no error.
  kErase = 2,
  // W_claim: everything due at or before mark_ms may be handed to subscribers from now on. Uses
  // shard, mark_ms.
  kClaim = 3,
  // W_safe: every message of the shard due before mark_ms is settled, cancelled, or listed in the
  // backlog. Uses shard, mark_ms.
  kSafe = 4,
  // Lists a due, unsettled message in its topic's backlog. Uses shard, topic, key, backlog.
  kSpill = 5,
  // Takes it out of the backlog. Uses shard, topic, key.
  kUnspill = 6,
  // Everything in the topic's backlog up to and including key may be handed to subscribers from now
  // on. Uses shard, topic, key.
  kBacklogClaim = 7,
  // Names a topic: topic, value (the name). Writing the same name again is no error.
  kTopic = 8,
  // Puts an entry of the index of names. Uses shard, topic, kind (IndexKind), name, value
  // (EncodeIndexEntry's bytes).
  kIndex = 9,
  // Remembers where a message is that is not at its id's own place, or how it ended. Uses shard,
  // key.id, value (EncodeTrace's bytes).
  kTrace = 10,
  // Adds `delta` to what is counted as pending. Uses shard, topic, mark_ms (a due time; the
  // counters of its minute, its hour and the whole topic change), delta.
  kCount = 11,
  // Puts an object. Uses shard, kind (ObjectKind), name, value.
  kObject = 12,
  // Removes it. Removing what is absent is no error.
  kUnobject = 13,
};

// What a name in the index stands for.
enum class IndexKind : uint8_t {
  // The key that a user gave to a message.
  kUserKey = 'k',
  // The request_id of a request that was accepted.
  kRequest = 'r',
};

// What an object is. Its bytes are the business of the room that writes them (FORMAT.md says
// where).
enum class ObjectKind : uint8_t {
  kTopicSettings = 't',
  kRecurrence = 'r',
  kOperation = 'o',
};

// A change of what is pending.
struct CountDelta {
  int64_t messages = 0;
  int64_t bytes = 0;

  friend constexpr bool operator==(const CountDelta&, const CountDelta&) = default;
};

// What the backlog remembers of a message.
struct BacklogEntry {
  // Deliveries begun before it was listed.
  uint32_t attempts = 0;
  // Size of the message's record: what delivering it costs in credit.
  uint32_t bytes = 0;
  // True if it may have been delivered although attempts is 0 (by a run that crashed).
  bool maybe_delivered = false;

  friend constexpr bool operator==(const BacklogEntry&, const BacklogEntry&) = default;
};

// One change of state. Applying it is deterministic: times and ids travel in the record.
struct Record {
  RecordType type{};
  uint16_t shard = 0;
  TopicId topic{};
  MessageKey key;
  uint64_t mark_ms = 0;
  BacklogEntry backlog;
  CountDelta delta;
  // IndexKind or ObjectKind.
  uint8_t kind = 0;
  std::string name;
  std::string value;
};

// Records that stand or fall together, in the order in which they apply.
using RecordBatch = std::vector<Record>;

}  // namespace duetime::storage
