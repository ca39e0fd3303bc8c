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
#include "server/delivery/shard_limits.h"
#include "server/delivery/topic_names.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "server/protocol/shard_stats.h"
#include "server/scheduler/pending_writes.h"
#include "server/wheel/slab_memory.h"

namespace duetime::storage {
class MessageStore;
}  // namespace duetime::storage

namespace duetime::shard {

// Tells the runtime when to call Step again.
struct StepResult {
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
  // There is more to do now: step again soon.
  bool more = false;
  // Otherwise: step again when the wall clock or the steady clock reaches these times, or when a
  // command or an outcome arrives.
  uint64_t wake_wall_ms = kNever;
  uint64_t wake_mono_ms = kNever;
  // Nothing waits for the next batch, so it may wait for more records.
  bool batch_may_wait = false;
};

// Records to append. Batches complete in the order in which they were taken.
using PendingBatch = scheduler::PendingWrites::Batch;

// One shard's state machine: accepts, keeps, fires, delivers and settles messages.
//
// Model: the runtime calls Handle() for each command and Step() to let time act. It takes the
// records to append with TakeBatch(), reports each batch's outcome with OnCommitted(), and carries
// out the effects from TakeEffects(). Nothing is applied before it is appended: answers appear in
// the effects only after OnCommitted(kAccepted).
//
// The shard has no clock, no thread, no lock and no network. It reads the store directly (bounded
// pages). The same inputs give the same effects: the simulation runs this very class. Guarantees:
// P1-P5, P7-P9 of ARCHITECTURE.md, each named at the code that keeps it. Thread safety: confined to
// the shard's engine thread.
class Shard {
 public:
  // REQUIRES: shard < store->shard_count(); `store`, `names` and `slabs`, the source of the wheels'
  // memory, outlive the shard.
  Shard(uint16_t shard, const delivery::ShardLimits& limits, storage::MessageStore* store,
        delivery::TopicNames* names = delivery::NoTopicNames::Shared(),
        wheel::SlabMemory* slabs = wheel::HeapSlabs::Shared());
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Reads the marks, the subscriptions, the recurrences and the operations; no messages. Call once,
  // first. An error means that the store cannot be read.
  absl::Status Recover(base::Now now);

  // From Suspend to Begin, steps load, fire, hand out and end nothing. Commands are decided, so
  // that the runtime can restore subscriptions first. Close may come without Begin.
  void Suspend();
  void Begin();

  // Decides one command. Answers come as effects, at once or after a commit.
  void Handle(base::Now now, protocol::Command command);

  // Reports whether the batch with this sequence was appended. REQUIRES: sequences come in order.
  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome);

  // Lets time act: loads, claims, fires, ends leases, hands out. Bounded work.
  StepResult Step(base::Now now);

  // The records decided since the last call, or nothing.
  std::optional<PendingBatch> TakeBatch();

  // The size of these records, about. A small command, such as Reschedule, may write a large
  // message again.
  size_t open_bytes() const;

  // The effects since the last call.
  protocol::Effects TakeEffects();

  // True once the journal or a read failed. Commands that need the store are then answered with
  // STORAGE_FAILED.
  bool failed() const;

  // Stops handing out: no new deliveries, claims or loads; settlements and answers go on. For
  // draining.
  void StopDispatch();

  // Ends the run: from now on Step only writes down what was handed out, a slice at a time, so that
  // the next run knows it. Implies StopDispatch. No command may follow.
  void Close();
  // True when all records of Close have been decided, or the shard has failed.
  bool closed() const;

  // True while settlements wait for the next step, because they were too many for one step.
  bool settles_waiting() const;

  // When the first lease ends, on the steady clock; UINT64_MAX without a lease. Cost: O(leases).
  uint64_t first_lease_end() const;

  // Counters and gauges as of now. Cost: O(topics with due messages).
  protocol::ShardStats stats() const;

  // Walks everything and checks the invariants. For tests; O(entries).
  void CheckInvariants() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::shard
