// SPDX-License-Identifier: Apache-2.0
//
// The catalog's records on disk: of a topic, of a subscription, and of the catalog itself.
// catalog.proto documents them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/catalog/topic.h"
#include "server/protocol/subscription_state.h"

namespace duetime::catalog {

// The partition of the catalog's records. No shard has this number.
inline constexpr uint16_t kPartition = storage::kNoShard;
inline constexpr absl::string_view kStateName = "state";

// catalog.proto explains the phases. The numbers are those on disk.
enum class TopicPhase : uint8_t { kLive = 0, kDeleting = 1, kDeleted = 2 };
enum class SubscriptionPhase : uint8_t { kLive = 0, kCreating = 1, kUpdating = 2, kDeleting = 3 };

struct StoredTopic {
  TopicPhase phase = TopicPhase::kLive;
  TopicSettings settings;
  uint64_t free_ms = 0;
  uint64_t longest_retention_ms = 0;
  storage::MessageId first_id{};

  friend bool operator==(const StoredTopic&, const StoredTopic&) = default;
};

struct StoredSubscription {
  SubscriptionPhase phase = SubscriptionPhase::kLive;
  storage::TopicId topic{};
  std::string name;
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  uint64_t create_ms = 0;
  bool from_now = false;
  bool keep_messages = false;

  friend bool operator==(const StoredSubscription&, const StoredSubscription&) = default;
};

struct StoredState {
  uint32_t next_subscription = 0;
  uint64_t longest_retention_ms = 0;

  friend bool operator==(const StoredState&, const StoredState&) = default;
};

std::string EncodeTopic(const StoredTopic& topic);
std::string EncodeSubscription(const StoredSubscription& subscription);
std::string EncodeState(const StoredState& state);
// DATA_LOSS for bytes that no encoder wrote.
absl::StatusOr<StoredTopic> DecodeTopic(absl::string_view bytes);
absl::StatusOr<StoredSubscription> DecodeSubscription(absl::string_view bytes);
absl::StatusOr<StoredState> DecodeState(absl::string_view bytes);

}  // namespace duetime::catalog
