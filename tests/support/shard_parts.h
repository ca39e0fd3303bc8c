// SPDX-License-Identifier: Apache-2.0
//
// ShardPartsTest: the common fixture for tests of single parts of a shard.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/occurrence_sink.h"
#include "server/delivery/shard_limits.h"
#include "server/delivery/shard_parts.h"
#include "server/protocol/replies.h"
#include "server/scheduler/scheduler.h"
#include "server/wheel/slab_memory.h"
#include "tests/support/test_store.h"
#include "tests/support/topic_names.h"

namespace duetime::test {

// Retries without a delay, for tests in which the time of a retry does not matter.
inline protocol::RetryPolicy AtOnce() {
  protocol::RetryPolicy retry = protocol::DefaultSubscriptionSettings().retry();
  retry.set_min_backoff_ms(0);
  retry.set_jitter_percent(0);
  return retry;
}

inline delivery::ShardLimits LimitsWithRetriesAtOnce() {
  delivery::ShardLimits limits;
  limits.nameless_retry = AtOnce();
  return limits;
}

// The base of one shard over a store in memory, without its parts. Commit() commits the open
// batches.
class ShardPartsTest : public testing::Test, protected delivery::OccurrenceSink {
 protected:
  explicit ShardPartsTest(const delivery::ShardLimits& limits = {}) : limits_(limits) {
    limits_.nameless_retry = AtOnce();
  }

  bool OnOccurrenceDue(base::Now, const storage::MessageRef&) override { return true; }
  void OnOccurrenceCancelled(base::Now, const storage::MessageId& id) override {
    cancelled_occurrences_.push_back(id);
  }

  delivery::ShardParts Parts() {
    return {.shard = 0,
            .limits = &limits_,
            .store = &store_,
            .writes = &writes_,
            .writer = &writer_,
            .key_locks = &key_locks_,
            .effects = &effects_,
            .stats = &stats_,
            .names = &names_,
            .slabs = wheel::HeapSlabs::Shared()};
  }
  static scheduler::SchedulerOptions SmallScheduler() {
    return {.shard = 0,
            .limits = {.load_window_ms = 10'000,
                       .loaded_max = 1'000,
                       .claim_ahead_ms = 1'000,
                       .claim_renew_ms = 500,
                       .low_watermark_period_ms = 1'000}};
  }

  // Writes the open batches, or loses them if not `accepted`. Returns false if there are none.
  bool Commit(bool accepted = true) {
    bool any = false;
    EXPECT_TRUE(writer_.BeginWaitingCounts().ok());
    while (auto batch = writes_.Take()) {
      any = true;
      if (accepted) {
        EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
                  storage::AppendOutcome::kAccepted);
      }
      writes_.Complete(now_, batch->sequence, accepted);
    }
    return any;
  }
  void Pass(uint64_t ms) {
    now_.wall_ms += ms;
    now_.mono_ms += ms;
  }

  delivery::ShardLimits limits_;
  MapOfNames names_;
  base::Now now_{.wall_ms = 1'800'000'000'000, .mono_ms = 1'000'000};
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  protocol::Effects effects_;
  protocol::ShardStats stats_;
  scheduler::PendingWrites writes_;
  scheduler::MessageWriter writer_{0, &store_, &writes_, /*recent_max=*/8};
  scheduler::KeyLocks key_locks_;
  std::vector<storage::MessageId> cancelled_occurrences_;
};

}  // namespace duetime::test
