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

// A subscription's number in this data directory; what it is called is said by its object. Never
// reused. The first subscription of a topic has the number of the topic, which is below 2^31; every
// other one has a number from 2^31 on. So what was written before there were subscriptions belongs
// to the first one as it is.
enum class SubscriptionId : uint32_t {};

constexpr SubscriptionId FirstSubscription(TopicId topic) {
  return SubscriptionId{static_cast<uint32_t>(topic)};
}

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
  // Lists an unsettled message in a subscription's backlog. Uses shard, subscription, key (when it
  // is to be handed out, and its id), backlog.
  kSpill = 5,
  // Takes it out of the backlog. Uses shard, subscription, key.
  kUnspill = 6,
  // Everything in the subscription's backlog up to and including key may be handed to subscribers
  // from now on. Uses shard, subscription, key.
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
  // Puts how far one of its subscriptions has come with a message. Uses shard, key (the message's
  // place), subscription, progress.
  kProgress = 14,
  // Removes it. Uses shard, key, subscription. Removing what is absent is no error.
  kUnprogress = 15,
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
  kSubscription = 's',
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
  // When the message itself is due, if its place in the backlog is another (that of a retry). 0:
  // its place says it.
  uint64_t due_ms = 0;

  friend constexpr bool operator==(const BacklogEntry&, const BacklogEntry&) = default;
};

// How far a subscription has come with a message that it has not left behind as it found it.
struct Progress {
  enum class State : uint8_t {
    // Done with it; the message is there for others.
    kSettled = 1,
    // An attempt failed; it is to be tried again.
    kFailed = 2,
  };

  State state = State::kFailed;
  // It waits in the subscription's backlog, at the place (retry_ms, id).
  bool listed = false;
  // Deliveries begun.
  uint32_t attempts = 0;
  // Not to be delivered before, UTC milliseconds. 0: at once.
  uint64_t retry_ms = 0;
  // Why the last attempt failed; what it means is the business of the room that writes it.
  uint8_t reason = 0;

  friend constexpr bool operator==(const Progress&, const Progress&) = default;
};

// One change of state. Applying it is deterministic: times and ids travel in the record.
struct Record {
  RecordType type{};
  uint16_t shard = 0;
  TopicId topic{};
  MessageKey key;
  uint64_t mark_ms = 0;
  SubscriptionId subscription{};
  BacklogEntry backlog;
  Progress progress;
  CountDelta delta;
  // IndexKind or ObjectKind.
  uint8_t kind = 0;
  std::string name;
  std::string value;
};

// Records that stand or fall together, in the order in which they apply.
using RecordBatch = std::vector<Record>;

}  // namespace duetime::storage
