// SPDX-License-Identifier: Apache-2.0
//
// The state of a subscription in a shard.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/protocol/settings.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::protocol {

// The state of a subscription in a shard. Every shard keeps one as an object
// (ObjectKind::kSubscription), under SubscriptionObjectName(id).
struct SubscriptionState {
  storage::SubscriptionId id{};
  storage::TopicId topic{};
  // Names as in requests. `name` is empty until a client names the topic's first subscription, and
  // again after the last one is deleted. The next subscription then takes over this number.
  std::string topic_name;
  std::string name;
  SubscriptionSettings settings = DefaultSubscriptionSettings();
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
