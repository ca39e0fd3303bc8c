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

// What a record does when it is applied. Written in this order of ideas: a message, its life, the marks.
enum class RecordType : uint8_t {
  // Puts a message. Uses shard, key, value (EncodeMessageRecord's bytes).
  kAccept = 1,
  // Removes a message for good: cancelled or settled. Uses shard, key. Removing what is absent is no error.
  kErase = 2,
  // W_claim: everything due at or before mark_ms may be handed to subscribers from now on. Uses shard, mark_ms.
  kClaim = 3,
  // W_safe: every message of the shard due before mark_ms is settled, cancelled, or listed in the backlog. Uses shard,
  // mark_ms.
  kSafe = 4,
  // Lists a due, unsettled message in its topic's backlog. Uses shard, topic, key, backlog.
  kSpill = 5,
  // Takes it out of the backlog. Uses shard, topic, key.
  kUnspill = 6,
  // Everything in the topic's backlog up to and including key may be handed to subscribers from now on. Uses shard, topic,
  // key.
  kBacklogClaim = 7,
  // Names a topic: topic, value (the name). Writing the same name again is no error.
  kTopic = 8,
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
  std::string value;
};

// Records that stand or fall together, in the order in which they apply.
using RecordBatch = std::vector<Record>;

}  // namespace duetime::storage
