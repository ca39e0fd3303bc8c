// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/drain.h"

#include <chrono>

#include "server/runtime/signals.h"

namespace duetime::runtime {
namespace {

constexpr std::chrono::milliseconds kLookEvery{20};

uint64_t InFlight(const Node& node) {
  uint64_t in_flight = 0;
  for (const delivery::ShardStats& stats : node.shard_stats()) in_flight += stats.in_flight;
  return in_flight;
}

// An ack that is decided is not in flight any more, but it is confirmed only when it is committed.
bool Quiet(const Node& node) {
  for (const delivery::ShardStats& stats : node.shard_stats()) {
    if (stats.in_flight + stats.uncommitted_batches > 0) return false;
  }
  return true;
}

}  // namespace

uint64_t StopDispatchAndWait(Node* node, base::Clock* clock, uint64_t grace_ms) {
  node->StopDispatch();
  const uint64_t end_ms = clock->Read().mono_ms + grace_ms;
  // The first look comes after a wait: what is being handed out at this moment counts as well.
  while (clock->Read().mono_ms < end_ms && !StopSignalWithin(kLookEvery)) {
    if (Quiet(*node)) break;
  }
  return InFlight(*node);
}

}  // namespace duetime::runtime
