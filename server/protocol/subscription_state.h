// SPDX-License-Identifier: Apache-2.0
//
// A subscription as it is asked for, and as it is kept.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::protocol {

// When a message is tried again that a subscriber did not settle, and how often.
struct RetryPolicy {
  // The delay after the first failed attempt; each further one is `multiplier_percent` of the one
  // before, up to max_backoff_ms. 0: at once, every time.
  uint64_t min_backoff_ms = 0;
  uint64_t max_backoff_ms = 600'000;
  // At least 100.
  uint32_t multiplier_percent = 200;
  // Each delay is made longer by up to this much of itself, at random. At most 100.
  uint32_t jitter_percent = 0;
  // After so many deliveries without an ack it becomes a dead letter. 0: never.
  uint32_t max_attempts = 0;

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

// What becomes of messages that have waited for longer than the retention, or are too many.
enum class RetentionPolicy : uint8_t { kDrop = 1, kDeadLetter = 2 };

struct SubscriptionSettings {
  // The lease of streams that ask for none. 0: the server's.
  uint64_t lease_ms = 0;
  RetryPolicy retry;
  // Where its dead letters go. Empty: to the dead-letter topic of its topic (TopicCommand).
  std::string dead_letter_name;
  storage::TopicId dead_letter{};
  // Messages wait.
  bool paused = false;
  // How long after its due time a message waits here. 0: for ever.
  uint64_t retention_ms = 0;
  // How many messages may wait here, in memory or in the backlog: beyond that the oldest are given
  // up. Each shard keeps its share. 0: any number.
  uint64_t retention_max_messages = 0;
  RetentionPolicy retention_policy = RetentionPolicy::kDrop;

  // Messages do not wait for ever.
  bool retains() const { return retention_ms > 0 || retention_max_messages > 0; }
  // Messages may become dead letters.
  bool MakesDeadLetters() const {
    return retry.max_attempts > 0 ||
           (retains() && retention_policy == RetentionPolicy::kDeadLetter);
  }

  friend bool operator==(const SubscriptionSettings&, const SubscriptionSettings&) = default;
};

// Kept as an object (ObjectKind::kSubscription) of every shard, under SubscriptionObjectName(id).
struct SubscriptionState {
  storage::SubscriptionId id{};
  storage::TopicId topic{};
  // Names as in requests. `name` is empty until a client names the topic's first subscription, and
  // after the last one is deleted. The next one takes over this number.
  std::string topic_name;
  std::string name;
  SubscriptionSettings settings;
  // Messages with this id or a greater one are for it. Differs from shard to shard.
  storage::MessageId start;
  uint64_t create_ms = 0;
  // Not 0: what was due until then, before it was created, is still being listed for it.
  uint64_t fill_until_ms = 0;
  // Takes no more messages; what waits only for it is being released.
  bool deleting = false;
  // All of that is done. Few such objects are kept (delivery::Subscriptions).
  bool deleted = false;
};

std::string SubscriptionObjectName(storage::SubscriptionId id);
std::string EncodeSubscription(const SubscriptionState& state);
absl::StatusOr<SubscriptionState> DecodeSubscription(absl::string_view name,
                                                     absl::string_view bytes);

}  // namespace duetime::protocol
