// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace duetime::delivery {

// Bounds of one shard; every one but fire_per_step is a knob of the configuration.
struct ShardLimits {
  // The timing wheel holds messages due within this window ...
  uint64_t load_window_ms = 30'000;
  // ... and at most about this many of them.
  size_t loaded_max = 4'000'000;
  // Messages fired in one step: a few milliseconds of work, so that commands are answered in
  // between, and a topic with little to do does not wait long for one with much.
  size_t fire_per_step = 2'000;
  // Due messages kept in memory, in all; beyond it they wait in the backlog on disk.
  size_t due_max = 1'000'000;
  // Due messages kept in memory for a topic without a subscriber.
  size_t due_idle_max = 1'000;
  // Deliveries in one frame.
  size_t frame_messages_max = 500;
  size_t frame_bytes_max = 256 << 10;
  // How far a claim runs ahead of the clock, and how close the clock may come before it is renewed.
  uint64_t claim_ahead_ms = 1'000;
  uint64_t claim_renew_ms = 500;
  // A due message that is unsettled for this long is listed in the backlog, so that recovery need
  // not look so far back.
  uint64_t spill_age_ms = 60'000;
  // How often W_safe is written.
  uint64_t low_watermark_period_ms = 1'000;
  // How long it is remembered how a message ended, unless its topic says otherwise.
  uint64_t tombstone_retention_ms = 86'400'000;
  // How long a repeat of a request_id is recognised.
  uint64_t request_retention_ms = 3'600'000;
  // Commands that may wait for a change of the same message or key; more are refused.
  size_t waiting_max = 10'000;
  // Recurrences, and the bytes of their templates, which are all in memory.
  size_t recurrences_max = 10'000;
  size_t recurrence_bytes_max = 64 << 20;
  // Bulk operations that run, or ended within a day.
  size_t operations_max = 1'000;
  // Messages per second that a subscription is handed at first after the start, by this shard; see
  // StartupRamp. 0: no limit.
  uint32_t startup_rate = 0;
  // Messages per second that subscriptions are handed by this shard, together, whose attempts fail
  // faster than that; see FailureThrottle. 0: no limit.
  uint32_t failure_rate = 0;
};

}  // namespace duetime::delivery
