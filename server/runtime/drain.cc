// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/drain.h"

#include <chrono>

#include "server/runtime/signals.h"

namespace duetime::runtime {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};

uint64_t InFlight(const Node& node) {
  uint64_t in_flight = 0;
  for (const protocol::ShardStats& stats : node.shard_stats()) in_flight += stats.in_flight;
  return in_flight;
}

// A decided ack is no longer in flight, but its client gets the confirmation only after the commit.
bool Quiet(const Node& node) {
  for (const protocol::ShardStats& stats : node.shard_stats()) {
    if (stats.in_flight + stats.uncommitted_batches > 0) return false;
  }
  return true;
}

}  // namespace

uint64_t StopDispatchAndWait(Node* node, base::Clock* clock, uint64_t grace_ms) {
  node->StopDispatch();
  const uint64_t end_ms = clock->Read().mono_ms + grace_ms;
  // Wait before the first check, so that deliveries in progress count as well.
  while (clock->Read().mono_ms < end_ms && !StopSignalWithin(kLookEvery)) {
    if (Quiet(*node)) break;
  }
  return InFlight(*node);
}

}  // namespace duetime::runtime
