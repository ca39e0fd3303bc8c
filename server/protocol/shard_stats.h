// SPDX-License-Identifier: Apache-2.0
//
// The counters and gauges of a shard, as plain numbers. The engine thread writes them, the runtime
// publishes copies, and server/metrics turns the copies into series.
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
  // Messages that were replaced or moved to another time.
  uint64_t rescheduled = 0;
  // Of these changes, those that shared the write of an earlier change of the same message.
  uint64_t merged = 0;
  // Messages that a subscription dropped, because their time to live had passed.
  uint64_t expired = 0;
  // Messages that a subscription turned into dead letters.
  uint64_t dead_lettered = 0;
  // Failed tries to make a dead letter, because there is no dead-letter topic. The message stays.
  uint64_t dead_letters_refused = 0;
  // Failed tries to make a dead letter of a message that has been in as many dead-letter topics as
  // it may. The message stays.
  uint64_t dead_letter_hops_refused = 0;
  // Messages that a subscription dropped, by its retention or by its deletion.
  uint64_t dropped = 0;
  uint64_t fired = 0;
  uint64_t delivered = 0;
  uint64_t redelivered = 0;
  uint64_t acked = 0;
  uint64_t nacked = 0;
  // Cancelled messages whose records were not read.
  uint64_t cancelled_unread = 0;
  // Failed attempts that another attempt follows.
  uint64_t retried = 0;
  uint64_t extended = 0;
  uint64_t leases_lost = 0;
  uint64_t settle_refused = 0;
  uint64_t spilled = 0;
  uint64_t read_back = 0;
  uint64_t loaded = 0;
  uint64_t claims = 0;
  // Occurrences of recurrences that were made anew, because a clock that was ahead had made them.
  uint64_t recurrences_made_anew = 0;
  // Lateness of first deliveries.
  std::array<uint64_t, kLatenessBoundsMs.size() + 1> lateness{};
  uint64_t lateness_sum_ms = 0;
  // Gauges.
  uint64_t wheel_timers = 0;
  uint64_t wheel_bytes = 0;
  uint64_t recent_bytes = 0;
  uint64_t due_ready = 0;
  uint64_t in_flight = 0;
  uint64_t delayed = 0;
  // Slowed subscriptions.
  uint64_t slowed = 0;
  // Streams and Settle calls with settlements that wait for a later step.
  uint64_t settling = 0;
  // Messages that wait for another message of their ordering key.
  uint64_t blocked = 0;
  uint64_t subscriptions = 0;
  uint64_t streams = 0;
  uint64_t topics_behind = 0;
  uint64_t uncommitted_batches = 0;
  // Commands that wait for a change of the same message or key.
  uint64_t waiting = 0;
  uint64_t recurrences = 0;
  // Of these, those that are active and cannot make occurrences.
  uint64_t recurrences_stalled = 0;
  uint64_t operations_running = 0;
  // What the timer fires next is due then, or later; 0 if nothing is loaded. If that time has
  // passed, the shard is behind.
  uint64_t timer_next_ms = 0;
  uint64_t low_watermark_ms = 0;
  uint64_t claim_ms = 0;
  uint64_t load_ms = 0;
  bool failed = false;
  // The shard has seen StopDispatch, so no lease begins any more.
  bool dispatch_stopped = false;
};

}  // namespace duetime::protocol
