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

// A shard publishes its figures when it has time, so earlier ones may lack leases. A decided ack is
// no longer in flight, but its client gets the confirmation only after the commit.
bool Quiet(const Node& node) {
  for (const protocol::ShardStats& stats : node.shard_stats()) {
    const bool open = stats.in_flight + stats.uncommitted_batches > 0;
    if (open || !stats.dispatch_stopped) return false;
  }
  return true;
}

}  // namespace

uint64_t StopDispatchAndWait(Node* node, base::Clock* clock, uint64_t grace_ms) {
  node->StopDispatch();
  const uint64_t end_ms = clock->machine()->Read().mono_ms + grace_ms;
  while (!Quiet(*node) && clock->machine()->Read().mono_ms < end_ms &&
         !StopSignalWithin(kLookEvery)) {
  }
  return InFlight(*node);
}

}  // namespace duetime::runtime
