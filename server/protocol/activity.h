// SPDX-License-Identifier: Apache-2.0
//
// What happens in a topic and in a subscription, as numbers of one shard.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "server/protocol/shard_stats.h"
#include "server/protocol/tags.h"
#include "storage/types.h"

namespace duetime::protocol {

// Since the start of the shard.
struct TopicActivity {
  uint64_t accepted = 0;
  uint64_t cancelled = 0;
};

// First deliveries by their lateness (kLatenessBoundsMs), since the start of the shard.
using LatenessCounts = std::array<uint64_t, kLatenessBoundsMs.size() + 1>;

struct SubscriptionActivity {
  // Now.
  uint64_t in_flight = 0;
  uint64_t streams = 0;
  // Since the start of the shard. `failed` counts attempts.
  uint64_t delivered = 0;
  uint64_t acked = 0;
  uint64_t failed = 0;
  uint64_t dead_lettered = 0;
  LatenessCounts lateness{};
};

struct ActivityList {
  std::vector<storage::TopicId> topics;
  std::vector<storage::SubscriptionId> subscriptions;
};

// In the order of the list; zeros for what the shard does not know.
struct ActivityReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  std::vector<TopicActivity> topics;
  std::vector<SubscriptionActivity> subscriptions;
};

}  // namespace duetime::protocol
