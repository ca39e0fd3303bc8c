// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace duetime::protocol {

// The limit and the number of a topic's pending messages, over all shards. Thread-safe.
//
// A shard compares before it accepts a message and counts afterwards. Shards that accept at the
// same moment may therefore exceed the limit by one message each.
struct TopicQuota {
  // 0: no limit.
  std::atomic<uint64_t> max{0};
  // Accepted messages, including those whose batch is not committed.
  std::atomic<int64_t> pending{0};

  bool HasRoom() const {
    const uint64_t limit = max.load(std::memory_order_relaxed);
    const int64_t now = pending.load(std::memory_order_relaxed);
    return limit == 0 || now < 0 || static_cast<uint64_t>(now) < limit;
  }
};

}  // namespace duetime::protocol
