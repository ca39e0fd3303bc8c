// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/scheduler/scheduler_limits.h"

namespace duetime::delivery {

// The limits of one shard: the knobs of delivery, of messages and of recurrences.
struct ShardLimits {
  scheduler::SchedulerLimits scheduler;
  // Not a knob. Messages fired in one step: a few milliseconds of work, so that commands are
  // answered in between, and a topic with little to do does not wait long for one with much.
  size_t fire_per_step = 2'000;
  // Due messages kept in memory, in all; beyond it they wait in the backlog on disk.
  size_t due_max = 1'000'000;
  // Due messages kept in memory for a topic without a subscriber.
  size_t due_idle_max = 1'000;
  // Deliveries in one frame.
  size_t frame_messages_max = 500;
  size_t frame_bytes_max = 256 << 10;
  // A due message that is unsettled for this long is listed in the backlog, so that recovery need
  // not look so far back.
  uint64_t spill_age_ms = 60'000;
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
  // Messages per second that a subscription is handed at first after the start, by this shard: its
  // share of NodeOptions::startup_rate. See StartupRamp. 0: no limit.
  uint32_t startup_rate = 0;
  // Messages per second that subscriptions are handed by this shard, together, whose attempts fail
  // faster than that: its share of NodeOptions::failure_rate. See FailureThrottle. 0: no limit.
  uint32_t failure_rate = 0;
};

}  // namespace duetime::delivery
