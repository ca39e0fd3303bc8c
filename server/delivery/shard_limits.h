// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/base/sip_hash.h"
#include "server/protocol/subscription_state.h"
#include "server/scheduler/scheduler_limits.h"

namespace duetime::delivery {

// The limits of one shard: the knobs of delivery, of messages and of recurrences.
struct ShardLimits {
  scheduler::SchedulerLimits scheduler;
  // Not a knob. Messages fired in one step: so few that commands are answered between steps, and a
  // quiet topic does not wait long for a busy one.
  size_t fire_per_step = 500;
  // Due messages kept in memory, in all. Further ones wait in the backlog on disk (MemoryShare).
  size_t due_max = 1'000'000;
  // Due messages kept in memory for a subscription without streams.
  size_t due_idle_max = 1'000;
  // Not a knob. Time moves in leaps, from event to event. So every message that becomes due is
  // looked up, because ShardStats::fired must not count cancelled messages, and what becomes too
  // old is an event, not found by a search now and then.
  bool test_clock = false;
  // Deliveries in one frame.
  size_t frame_messages_max = 500;
  size_t frame_bytes_max = 256 << 10;
  // A due message that is unsettled for this long is listed in the backlog, so that recovery need
  // not look so far back.
  uint64_t spill_age_ms = 60'000;
  // How long tombstones are kept, unless the topic sets another time.
  uint64_t tombstone_retention_ms = 86'400'000;
  // How long a repeat of a request_id is recognised.
  uint64_t request_retention_ms = 3'600'000;
  // Commands that may wait for a change of the same message or key; more are refused.
  size_t waiting_max = 10'000;
  // Recurrences, and the bytes of their templates, which are all in memory.
  size_t recurrences_max = 10'000;
  size_t recurrence_bytes_max = 64 << 20;
  // Bulk operations that run, or ended within a day. Those that ended before request_retention_ms
  // give way to new ones, and so do recurrences that have completed.
  size_t operations_max = 1'000;
  // The rate at which each subscription is first served after the start, in messages per second:
  // this shard's share of NodeOptions::startup_rate. See StartupRamp. 0: no limit.
  uint32_t startup_rate = 0;
  // The rate of all slowed subscriptions together, in messages per second: this shard's share of
  // NodeOptions::failure_rate. See FailureThrottle. 0: no limit.
  uint32_t failure_rate = 0;
  // Not a knob. The retry policy of a topic's subscription while it has no name, and so no
  // settings.
  protocol::RetryPolicy nameless_retry = protocol::DefaultSubscriptionSettings().retry();
  // Not a knob. The secret behind the lease tokens, which the node draws at each start.
  base::SipKey lease_key = {};
};

}  // namespace duetime::delivery
