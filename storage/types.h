// SPDX-License-Identifier: Apache-2.0
//
// Records: the changes that the journal appends and the store applies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/message_id.h"

namespace duetime::storage {

// The number of a topic in this data directory. The topic table maps it to a name. Numbers are
// never reused.
enum class TopicId : uint32_t {};

// The number of a subscription in this data directory. Its object (ObjectKind::kSubscription) holds
// its name. Numbers are never reused.
//
// The first subscription of a topic has the topic's own number, which is below 2^31. All others
// have numbers from 2^31 on. Data that was written before subscriptions existed therefore belongs
// to the first subscription.
enum class SubscriptionId : uint32_t {};

inline constexpr uint32_t kSecondSubscription = uint32_t{1} << 31;

constexpr SubscriptionId FirstSubscription(TopicId topic) {
  return SubscriptionId{static_cast<uint32_t>(topic)};
}

// The effect of a record.
enum class RecordType : uint8_t {
  // Stores a message, and adds it to the topic's counters. Uses shard, topic, key, value
  // (EncodeMessageRecord's bytes). REQUIRES: no message is stored at the key.
  kAccept = 1,
  // Erases a message, and subtracts it from the topic's counters: it was settled, cancelled or
  // moved. Uses shard, topic, key, bytes (the size of the message's value). REQUIRES: the message
  // is stored, or its kAccept comes before.
  kErase = 2,
  // Advances the claim: messages due at or before mark_ms may be delivered from now on. Uses shard,
  // mark_ms, claim_return.
  kClaim = 3,
  // Advances the low watermark: every message of the shard due before mark_ms is settled, cancelled
  // or in the backlog. Uses shard, mark_ms.
  kLowWatermark = 4,
  // Adds an unsettled message to a subscription's backlog. Uses shard, subscription, backlog, and
  // key: the time at which to deliver the message, and its id.
  kSpill = 5,
  // Removes an entry from the backlog. Uses shard, subscription, key.
  kUnspill = 6,
  // Advances the backlog claim: entries of the subscription's backlog up to and including key may
  // be delivered from now on. Uses shard, subscription, key.
  kBacklogClaim = 7,
  // Names a topic. Uses topic, value (the name). Writing the same name again is not an error.
  kTopic = 8,
  // Stores an index entry. Uses shard, topic, kind (IndexKind), name, value (EncodeIndexEntry's
  // bytes).
  kIndex = 9,
  // Stores the locator of a message that was moved or has ended. Uses shard, key.id, value
  // (the bytes of EncodeLocator or AddTombstone).
  kLocator = 10,
  // Stores an object. Uses shard, kind (ObjectKind), name, value.
  kObject = 12,
  // Erases an object. Erasing an absent object is not an error. Uses shard, kind, name.
  kUnobject = 13,
  // Stores a subscription's progress with a message. Uses shard, key (of the message),
  // subscription, progress. REQUIRES: no record with the state kSettled is stored at the key.
  kProgress = 14,
  // Erases a progress record. Uses shard, key, subscription, progress.state: kSettled if the erased
  // record has that state. Erasing an absent one is not an error.
  kUnprogress = 15,
};

// The kind of name in an index entry.
enum class IndexKind : uint8_t {
  // The key of a message (ScheduleRequest.key).
  kUserKey = 'k',
  // The request_id of a request that was accepted.
  kRequest = 'r',
};

// The kind of an object. The room that writes an object defines its bytes; FORMAT.md documents
// them.
enum class ObjectKind : uint8_t {
  kTopicSettings = 't',
  kRecurrence = 'r',
  kOperation = 'o',
  kSubscription = 's',
  kCatalog = 'c',
  kCell = 'm',
  // Of a subscription that gets no older message (SubscriptionStart). The store makes it: with the
  // object, the messages of the topic count as done for the subscription. Erasing the object, also
  // an absent one, erases all that the subscription is done with.
  kSubscriptionStart = 'b',
};

// The value of Record::shard for objects that belong to no shard.
inline constexpr uint16_t kNoShard = 0xFFFF;

// A change of the counters of pending messages.
struct CountDelta {
  int64_t messages = 0;
  int64_t bytes = 0;

  friend constexpr bool operator==(const CountDelta&, const CountDelta&) = default;
};

// A message's entry in a subscription's backlog.
struct BacklogEntry {
  // Delivery attempts before the message was added.
  uint32_t attempts = 0;
  // Size of the message record, which is the credit that a delivery costs.
  uint32_t bytes = 0;
  // True if a run that crashed may have delivered the message although attempts is 0.
  bool maybe_delivered = false;
  // The due time of the message, if its backlog key has another time, that of a retry. 0: the key
  // has the due time.
  uint64_t due_ms = 0;

  friend constexpr bool operator==(const BacklogEntry&, const BacklogEntry&) = default;
};

// A subscription's progress with a message. Without a record, the subscription has never delivered
// the message, or only in the current run.
struct Progress {
  enum class State : uint8_t {
    // The subscription settled the message, which stays for other subscriptions.
    kSettled = 1,
    // An attempt failed. The subscription will try again.
    kFailed = 2,
  };

  State state = State::kFailed;
  // True if the message is in the subscription's backlog, at (retry_ms, id).
  bool listed = false;
  // Delivery attempts.
  uint32_t attempts = 0;
  // The part of the attempts that does not count as failed, in half attempts: at most 2 * attempts.
  uint32_t spared = 0;
  // The earliest time of the next attempt, UTC milliseconds. 0: at once.
  uint64_t retry_ms = 0;
  // Why the last attempt ended. The delivery room defines the values.
  uint8_t reason = 0;
  // For kSettled: the dead letter that the subscription made of the message; no id if none.
  MessageId dead_letter{};
  // For kFailed: the last attempts, encoded (attempts.h). Empty: none is known.
  std::string last_attempts = {};

  // The failed attempts, in half attempts.
  uint32_t half_failures() const {
    const uint64_t begun = 2 * uint64_t{attempts};
    return static_cast<uint32_t>(begun - std::min<uint64_t>(begun, spared));
  }

  friend constexpr bool operator==(const Progress&, const Progress&) = default;
};

// What a clean stop adds to the claim: the earlier runs that did not stop cleanly. Only their
// messages may have been delivered without a progress record.
struct ClaimReturn {
  // The due time of such a message is at or before this.
  uint64_t until_ms = 0;
  // The message is of this epoch or an earlier one.
  uint64_t epoch = 0;

  friend constexpr bool operator==(const ClaimReturn&, const ClaimReturn&) = default;
};

// One change of state. Applying a record is deterministic: it carries all times and ids.
struct Record {
  RecordType type{};
  uint16_t shard = 0;
  TopicId topic{};
  MessageKey key = {};
  uint64_t mark_ms = 0;
  // For kClaim: set in the last record of a clean stop.
  std::optional<ClaimReturn> claim_return = {};
  SubscriptionId subscription{};
  BacklogEntry backlog = {};
  Progress progress = {};
  uint32_t bytes = 0;
  // IndexKind or ObjectKind.
  uint8_t kind = 0;
  std::string name = {};
  std::string value = {};
};

// The change that a record makes to the counters of its topic, at the due time of its key.
inline CountDelta CountOf(const Record& record) {
  switch (record.type) {
    case RecordType::kAccept:
      return {.messages = 1, .bytes = static_cast<int64_t>(record.value.size())};
    case RecordType::kErase:
      return {.messages = -1, .bytes = -static_cast<int64_t>(record.bytes)};
    default:
      return {};
  }
}

// The change that a record makes to what its subscription is done with, at the due time of its key.
inline CountDelta DoneOf(const Record& record) {
  if (record.progress.state != Progress::State::kSettled) return {};
  if (record.type == RecordType::kProgress) return {.messages = 1};
  return {.messages = record.type == RecordType::kUnprogress ? -1 : 0};
}

// Records that are applied together or not at all, in this order.
using RecordBatch = std::vector<Record>;

}  // namespace duetime::storage
