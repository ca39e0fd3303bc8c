// SPDX-License-Identifier: Apache-2.0
//
// SchedulerLimits: the knobs of the scheduler of one shard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace duetime::scheduler {

struct SchedulerLimits {
  // The wheel holds messages due within this window ...
  uint64_t load_window_ms = 30'000;
  // ... and at most about this many of them.
  size_t loaded_max = 4'000'000;
  // See RecentMessages.
  size_t recent_messages_max = 800'000;
  // A claim runs this far ahead of the clock. The scheduler renews it when less than claim_renew_ms
  // of it is left and a message is due within that time.
  uint64_t claim_ahead_ms = 1'000;
  uint64_t claim_renew_ms = 500;
  // The period at which the scheduler writes the low watermark while it moves.
  uint64_t low_watermark_period_ms = 1'000;
};

}  // namespace duetime::scheduler
