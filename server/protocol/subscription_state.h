// SPDX-License-Identifier: Apache-2.0
//
// A subscription: its settings, and its state in a shard.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::protocol {

// When, and how often, a subscription delivers an unsettled message again.
struct RetryPolicy {
  // The delay after the first failed attempt. Each further delay is `multiplier_percent` of the
  // previous one, up to max_backoff_ms. 0: every retry is immediate. By default it is not 0, so
  // that a handler that always fails does not spin.
  uint64_t min_backoff_ms = 1'000;
  uint64_t max_backoff_ms = 600'000;
  // At least 100.
  uint32_t multiplier_percent = 200;
  // The maximum random lengthening of a delay, in percent of it. At most 100.
  uint32_t jitter_percent = 20;
  // The number of failed deliveries after which a message becomes a dead letter. 0: never.
  uint32_t max_attempts = 0;

  // The first delay if none is given: the default, or the longest delay if that is less.
  static uint64_t DefaultMinBackoffMs(uint64_t max_backoff_ms) {
    return std::min(RetryPolicy{}.min_backoff_ms, max_backoff_ms);
  }

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

// What to do with messages that exceed the retention.
enum class RetentionPolicy : uint8_t { kDrop = 1, kDeadLetter = 2 };

struct SubscriptionSettings {
  // The lease of streams that request none. 0: the server's default.
  uint64_t lease_ms = 0;
  RetryPolicy retry;
  // The dead-letter topic. Empty: that of the topic (TopicCommand::dead_letter).
  std::string dead_letter_name;
  storage::TopicId dead_letter{};
  // The subscription delivers no messages.
  bool paused = false;
  // How long after its due time a message may wait. 0: no limit.
  uint64_t retention_ms = 0;
  // The most messages that may wait, in memory or in the backlog. retention_policy applies to the
  // oldest ones beyond that. Each shard has an equal share of the limit. 0: no limit.
  uint64_t retention_max_messages = 0;
  RetentionPolicy retention_policy = RetentionPolicy::kDrop;

  // True if the subscription has a retention.
  bool retains() const { return retention_ms > 0 || retention_max_messages > 0; }
  // True if messages may become dead letters.
  bool MakesDeadLetters() const {
    return retry.max_attempts > 0 ||
           (retains() && retention_policy == RetentionPolicy::kDeadLetter);
  }

  friend bool operator==(const SubscriptionSettings&, const SubscriptionSettings&) = default;
};

// The state of a subscription in a shard. Every shard keeps one as an object
// (ObjectKind::kSubscription), under SubscriptionObjectName(id).
struct SubscriptionState {
  storage::SubscriptionId id{};
  storage::TopicId topic{};
  // Names as in requests. `name` is empty until a client names the topic's first subscription, and
  // again after the last one is deleted. The next subscription then takes over this number.
  std::string topic_name;
  std::string name;
  SubscriptionSettings settings;
  // The subscription gets messages with this id or a greater one. Each shard has its own start.
  storage::MessageId start;
  uint64_t create_ms = 0;
  // If not 0, the shard still adds messages that were due until then, before the subscription's
  // creation, to its backlog.
  uint64_t fill_until_ms = 0;
  // The subscription takes no more messages. The shard releases the messages that wait for it.
  bool deleting = false;
  // The release is done. The shard keeps few such objects (delivery::Subscriptions).
  bool deleted = false;
};

std::string SubscriptionObjectName(storage::SubscriptionId id);
std::string EncodeSubscription(const SubscriptionState& state);
absl::StatusOr<SubscriptionState> DecodeSubscription(absl::string_view name,
                                                     absl::string_view bytes);

}  // namespace duetime::protocol
