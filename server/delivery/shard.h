// SPDX-License-Identifier: Apache-2.0
//
// Shard: the whole life of one shard's messages, as a state machine.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/commands.h"
#include "server/delivery/shard_stats.h"
#include "server/wheel/slab_memory.h"
#include "storage/message_store.h"

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
  uint64_t safe_period_ms = 1'000;
  // How long it is remembered how a message ended, unless its topic says otherwise.
  uint64_t fate_retention_ms = 86'400'000;
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
  // CatchUp. 0: no limit.
  uint32_t catch_up_rate = 0;
  // Messages per second that subscriptions are handed by this shard, together, whose attempts fail
  // faster than that; see FailureBrake. 0: no limit.
  uint32_t failure_rate = 0;
};

// What the runtime is to do when a step is over.
struct StepResult {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  // There is more to do right now: step again soon.
  bool more = false;
  // Otherwise: step again when the wall clock or the steady clock reaches these, or when something
  // arrives.
  uint64_t wake_wall_ms = kNever;
  uint64_t wake_mono_ms = kNever;
};

// Records to append. Batches complete in the order they were taken.
struct PendingBatch {
  uint64_t sequence = 0;
  storage::RecordBatch records;
  storage::Durability durability = storage::Durability::kBuffered;
};

// One shard's state machine: accepts, keeps, fires, delivers and settles messages.
//
// Model: the runtime calls Handle() for each command, Step() to let time act, takes the records to
// append with TakeBatch() and reports each batch's fate with OnCommitted(), and carries out the
// Effects. Nothing is applied before it is appended: answers appear in the effects only after
// OnCommitted(kAccepted).
//
// What it does not do: no clock, no thread, no lock, no network. Reads the store directly (bounded
// pages). The same inputs give the same effects: the simulation runs this very class. Guarantees:
// P1-P5, P7-P9 of ARCHITECTURE.md, each named at the code that keeps it. Thread safety: confined to
// the shard's engine thread.
class Shard {
 public:
  // REQUIRES: shard < store->shard_count(); `store` and `slabs`, where the memory of the wheels
  // comes from, outlive the shard.
  Shard(uint16_t shard, const ShardLimits& limits, storage::MessageStore* store,
        wheel::SlabMemory* slabs = wheel::HeapSlabs::Shared());
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Reads the marks; nothing else is rebuilt. Call once, first. An error means that the store
  // cannot be read.
  absl::Status Recover(base::Now now);

  // Decides one command. Answers come as effects, at once or after a commit.
  void Handle(base::Now now, Command command);

  // The batch with this sequence is appended, or not. REQUIRES: sequences come in order.
  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome);

  // Lets time act: loads, claims, fires, ends leases, hands out. Bounded work.
  StepResult Step(base::Now now);

  // The records decided since the last call, or nothing.
  std::optional<PendingBatch> TakeBatch();

  // The effects since the last call.
  Effects TakeEffects();

  // True once the journal or a read failed: every command is answered with STORAGE_FAILED.
  bool failed() const;

  // Stops handing out: no new deliveries, claims or loads; settlements and answers go on. For
  // draining.
  void StopDispatch();

  // True while settlements wait for the next step: they were more than one step may make.
  bool settles_waiting() const;

  // Counters and gauges as of now. Cost: O(1).
  ShardStats stats() const;

  // Walks everything and checks the invariants. For tests; O(entries).
  void CheckInvariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::delivery
