// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/shard.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/bulk_runner.h"
#include "server/delivery/desk.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/occurrences.h"
#include "server/scheduler/outbox.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {
namespace {

// Messages handed out in one step.
constexpr size_t kDeliverPerStep = 1000;

scheduler::SchedulerOptions SchedulerOptionsOf(uint16_t shard, const ShardLimits& limits,
                                               wheel::SlabMemory* slabs) {
  return {.shard = shard,
          .load_window_ms = limits.load_window_ms,
          .loaded_max = limits.loaded_max,
          .claim_ahead_ms = limits.claim_ahead_ms,
          .claim_renew_ms = limits.claim_renew_ms,
          .safe_period_ms = limits.safe_period_ms,
          .slabs = slabs};
}

}  // namespace

// Joins the scheduler and the dispatcher through one outbox, and stops both when the journal or a
// read fails.
class Shard::Impl {
 public:
  Impl(uint16_t shard, const ShardLimits& limits, storage::MessageStore* store,
       wheel::SlabMemory* slabs)
      : shard_(shard),
        fire_per_step_(limits.fire_per_step),
        slabs_(slabs),
        writer_(shard, store, &outbox_),
        scheduler_(SchedulerOptionsOf(shard, limits, slabs), store, &outbox_, &writer_,
                   &dispatcher_),
        dispatcher_(PartsOf(limits, store), &scheduler_),
        desk_(PartsOf(limits, store), &scheduler_, &dispatcher_),
        occurrences_(PartsOf(limits, store), &scheduler_, &dispatcher_, &desk_),
        bulk_(PartsOf(limits, store), &desk_) {
    DT_CHECK_LT(shard, store->shard_count());
  }

  absl::Status Recover(base::Now now) {
    absl::Status status = scheduler_.Recover(now);
    if (!status.ok()) return status;
    status = dispatcher_.Recover(now);
    if (status.ok()) status = occurrences_.Recover();
    if (status.ok()) status = bulk_.Recover(now);
    return status;
  }

  void Handle(base::Now now, Command command) {
    std::visit([&](auto& alternative) { Do(now, alternative); }, command);
  }

  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
    const bool accepted = outcome == storage::AppendOutcome::kAccepted;
    outbox_.Complete(now, sequence, accepted && !failed_);
    if (!accepted) Fail(now);
  }

  StepResult Step(base::Now now) {
    StepResult result;
    if (failed_) return result;
    dispatcher_.ExpireTimers(now, &result.more);
    absl::Status status = dispatcher_.read_status();
    if (status.ok() && !stopped_) {
      status = scheduler_.Step(now, fire_per_step_, &result.more);
      if (status.ok()) status = dispatcher_.Pump(now, kDeliverPerStep, &result.more);
      if (status.ok()) status = bulk_.Step(now);
    }
    if (!status.ok()) {
      // What cannot be read cannot be decided on. Nothing more is handed out or accepted.
      Fail(now);
      return StepResult{};
    }
    dispatcher_.SpillOld(now, &result.more);
    scheduler_.WriteSafe(now);
    if (!stopped_) result.wake_wall_ms = scheduler_.NextWakeWall(now);
    result.wake_mono_ms = std::min(scheduler_.NextWakeMono(), dispatcher_.NextWakeMono());
    return result;
  }

  std::optional<PendingBatch> TakeBatch() {
    // What was decided while a read failed is not whole: the end of a message without that of its
    // key, for one. The next step fails the shard. And while it has to be found out what a topic's
    // minutes hold, nothing is to be on its way.
    if (failed_ || !dispatcher_.read_status().ok() || writer_.settling()) return std::nullopt;
    if (absl::Status status = writer_.FlushCounts(); !status.ok()) {
      dispatcher_.NoteReadError(status);
      return std::nullopt;
    }
    auto batch = outbox_.Take();
    if (!batch.has_value()) return std::nullopt;
    return PendingBatch{.sequence = batch->sequence,
                        .records = std::move(batch->records),
                        .durability = batch->durability};
  }

  Effects TakeEffects() {
    effects_.used_topics = writer_.TakeUsed();
    return std::exchange(effects_, Effects{});
  }

  bool failed() const { return failed_; }

  void StopDispatch() {
    stopped_ = true;
    dispatcher_.Stop();
  }

  bool settles_waiting() const { return !failed_ && dispatcher_.settles_waiting(); }

  ShardStats stats() const {
    ShardStats stats = stats_;
    dispatcher_.FillStats(&stats);
    const scheduler::SchedulerCounters& counters = scheduler_.counters();
    stats.accepted = counters.accepted;
    stats.loaded = counters.loaded;
    stats.claims = counters.claims;
    stats.wheel_timers = scheduler_.timers();
    stats.wheel_bytes = scheduler_.wheel_bytes();
    stats.waiting = latches_.waiting();
    stats.recurrences = occurrences_.size();
    stats.operations_running = bulk_.running();
    stats.uncommitted_batches = outbox_.batches_in_flight();
    stats.fired_ms = scheduler_.fired_ms();
    stats.safe_ms = scheduler_.safe_ms();
    stats.claim_ms = scheduler_.claim_ms();
    stats.load_ms = scheduler_.load_ms();
    stats.failed = failed_;
    return stats;
  }

  void CheckInvariants() const {
    if (failed_) return;
    scheduler_.CheckInvariants();
    dispatcher_.CheckInvariants();
  }

 private:
  void Do(base::Now now, ScheduleCommand& command) { Ask(now, command, &Desk::Schedule); }
  void Do(base::Now now, CancelCommand& command) { Ask(now, command, &Desk::Cancel); }
  void Do(base::Now now, CancelBatchCommand& command) {
    for (CancelCommand& item : command.items) Do(now, item);
  }
  void Do(base::Now now, RescheduleCommand& command) { Ask(now, command, &Desk::Reschedule); }
  void Do(base::Now now, GetCommand& command) { Ask(now, command, &Desk::Get); }
  void Do(base::Now now, InspectCommand& command) {
    if (failed_) {
      desk_.Refuse(command);
    } else {
      desk_.Inspect(now, command);
    }
  }
  template <typename C>
  void Ask(base::Now now, C& command, void (Desk::*handler)(base::Now, C)) {
    if (failed_) {
      desk_.Refuse(command);
    } else {
      (desk_.*handler)(now, std::move(command));
    }
  }

  void Do(base::Now now, OperationCommand& command) {
    if (failed_) {
      bulk_.Refuse(command);
    } else {
      bulk_.Handle(now, std::move(command));
    }
  }
  void Do(base::Now now, RecurrenceCommand& command) {
    if (failed_) {
      occurrences_.Refuse(command);
    } else {
      occurrences_.Handle(now, std::move(command));
    }
  }
  void Do(base::Now, ObjectCommand& command) {
    ObjectReply reply{.tag = command.tag, .status = absl::OkStatus()};
    if (failed_) {
      reply.status = base::StorageFailedError();
      effects_.objects.push_back(std::move(reply));
      return;
    }
    const auto synced = storage::Durability::kSynced;
    if (command.value.has_value()) {
      writer_.PutObject(command.kind, std::move(command.name), *std::move(command.value), synced);
    } else {
      writer_.RemoveObject(command.kind, std::move(command.name), synced);
    }
    outbox_.Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
      if (!ok) reply.status = base::StorageFailedError();
      effects_.objects.push_back(std::move(reply));
    });
  }
  void Do(base::Now now, TopicCommand& command) {
    TopicReply reply{.tag = command.tag, .status = base::StorageFailedError()};
    if (!failed_) reply.status = SetTopic(now, command, &reply);
    if (!reply.status.ok() || !writer_.settling()) {
      effects_.topics.push_back(std::move(reply));
      return;
    }
    outbox_.Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
      if (!ok) reply.status = base::StorageFailedError();
      effects_.topics.push_back(std::move(reply));
    });
  }
  absl::Status SetTopic(base::Now now, TopicCommand& command, TopicReply* reply) {
    dispatcher_.SetTopic(now, command);
    desk_.SetTopic(command);
    writer_.Watch(command.topic, command.watch);
    const absl::StatusOr<int64_t> pending = writer_.Pending(command.topic);
    absl::Status status = pending.status();
    if (status.ok() && command.quota != nullptr) {
      status = writer_.SetQuota(command.topic, std::move(command.quota));
    }
    if (!status.ok()) {
      dispatcher_.NoteReadError(status);
      return base::StorageFailedError();
    }
    reply->messages = static_cast<uint64_t>(std::max<int64_t>(*pending, 0));
    reply->recurrences = occurrences_.CountOf(command.topic);
    return absl::OkStatus();
  }

  void Do(base::Now now, SubscriptionCommand& command) {
    if (failed_) {
      dispatcher_.Refuse(command);
    } else {
      dispatcher_.Change(now, std::move(command));
    }
  }
  void Do(base::Now, InspectSubscriptionCommand& command) { dispatcher_.Inspect(command); }
  void Do(base::Now, EchoCommand& command) { effects_.echoes.push_back({.tag = command.tag}); }

  // Streams of a failed shard are ended by the runtime: nothing to answer.
  void Do(base::Now now, AttachCommand& command) {
    if (!failed_) dispatcher_.Attach(now, command);
  }
  void Do(base::Now, DetachCommand& command) {
    if (!failed_) dispatcher_.Detach(command);
  }
  void Do(base::Now now, SettleCommand& command) {
    if (!failed_) dispatcher_.Settle(now, std::move(command));
  }
  void Do(base::Now, CreditCommand& command) {
    if (!failed_) dispatcher_.Credit(command);
  }

  void Fail(base::Now now) {
    if (failed_) return;
    failed_ = true;
    effects_.failed = true;
    outbox_.Abandon(now);
  }

  ShardParts PartsOf(const ShardLimits& limits, storage::MessageStore* store) {
    return {.shard = shard_,
            .limits = &limits,
            .store = store,
            .outbox = &outbox_,
            .writer = &writer_,
            .latches = &latches_,
            .occurrences = &occurrences_,
            .effects = &effects_,
            .stats = &stats_,
            .slabs = slabs_};
  }

  const uint16_t shard_;
  const size_t fire_per_step_;
  wheel::SlabMemory* const slabs_;
  Effects effects_;
  ShardStats stats_;
  scheduler::Outbox outbox_;
  scheduler::MessageWriter writer_;
  scheduler::Latches latches_;
  scheduler::Scheduler scheduler_;
  Dispatcher dispatcher_;
  Desk desk_;
  Occurrences occurrences_;
  BulkRunner bulk_;
  bool failed_ = false;
  bool stopped_ = false;
};

Shard::Shard(uint16_t shard, const ShardLimits& limits, storage::MessageStore* store,
             wheel::SlabMemory* slabs)
    : impl_(std::make_unique<Impl>(shard, limits, store, slabs)) {}
Shard::~Shard() = default;

absl::Status Shard::Recover(base::Now now) { return impl_->Recover(now); }
void Shard::Handle(base::Now now, Command command) { impl_->Handle(now, std::move(command)); }
void Shard::OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
  impl_->OnCommitted(now, sequence, outcome);
}
StepResult Shard::Step(base::Now now) { return impl_->Step(now); }
std::optional<PendingBatch> Shard::TakeBatch() { return impl_->TakeBatch(); }
Effects Shard::TakeEffects() { return impl_->TakeEffects(); }
bool Shard::failed() const { return impl_->failed(); }
void Shard::StopDispatch() { impl_->StopDispatch(); }
bool Shard::settles_waiting() const { return impl_->settles_waiting(); }
ShardStats Shard::stats() const { return impl_->stats(); }
void Shard::CheckInvariants() const { impl_->CheckInvariants(); }

}  // namespace duetime::delivery
