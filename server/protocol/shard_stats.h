// SPDX-License-Identifier: Apache-2.0
//
// What a shard counts. Plain numbers written by the engine thread; the runtime publishes copies,
// metrics turn them into series.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace duetime::protocol {

// Upper bounds in milliseconds of the lateness histogram's buckets; one more bucket holds the rest.
inline constexpr std::array<uint64_t, 16> kLatenessBoundsMs = {
    0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1'000, 5'000, 30'000, 60'000, 600'000, 3'600'000};

struct ShardStats {
  // Counters since start.
  uint64_t accepted = 0;
  uint64_t cancelled = 0;
  // Replaced or moved to another time.
  uint64_t rescheduled = 0;
  // Ended unsent, because they were later than their time to live.
  uint64_t expired = 0;
  // Given up by a subscription: made a dead letter; or ended because it was deleted or had kept it
  // for long enough.
  uint64_t dead_lettered = 0;
  // How often one was to become a dead letter, and there was no topic for it: it stays.
  uint64_t dead_letters_refused = 0;
  uint64_t dropped = 0;
  uint64_t fired = 0;
  uint64_t delivered = 0;
  uint64_t redelivered = 0;
  uint64_t acked = 0;
  uint64_t nacked = 0;
  // Attempts that failed and are to be followed by another.
  uint64_t retried = 0;
  uint64_t extended = 0;
  uint64_t leases_lost = 0;
  uint64_t settle_refused = 0;
  uint64_t spilled = 0;
  uint64_t read_back = 0;
  uint64_t loaded = 0;
  uint64_t claims = 0;
  // Lateness of first deliveries.
  std::array<uint64_t, kLatenessBoundsMs.size() + 1> lateness{};
  uint64_t lateness_sum_ms = 0;
  // Gauges.
  uint64_t wheel_timers = 0;
  uint64_t wheel_bytes = 0;
  uint64_t due_ready = 0;
  uint64_t in_flight = 0;
  uint64_t delayed = 0;
  // Subscriptions whose attempts fail too fast.
  uint64_t slowed = 0;
  // Streams, and calls, with settlements that wait for their turn.
  uint64_t settling = 0;
  // Behind another message of their ordering key.
  uint64_t blocked = 0;
  uint64_t subscriptions = 0;
  uint64_t streams = 0;
  uint64_t topics_behind = 0;
  uint64_t uncommitted_batches = 0;
  // Commands that wait for a change of the same message or key.
  uint64_t waiting = 0;
  uint64_t recurrences = 0;
  uint64_t operations_running = 0;
  // W_fire: everything due at or before it has been fired. Its distance to now is the lag.
  uint64_t fired_ms = 0;
  uint64_t low_watermark_ms = 0;
  uint64_t claim_ms = 0;
  uint64_t load_ms = 0;
  bool failed = false;
};

}  // namespace duetime::protocol
