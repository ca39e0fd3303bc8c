// SPDX-License-Identifier: Apache-2.0
#include "server/shard/shard.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/dispatcher.h"
#include "server/messages/bulk_runner.h"
#include "server/messages/message_commands.h"
#include "server/protocol/commands.h"
#include "server/recurrences/recurrence_engine.h"
#include "server/scheduler/pending_writes.h"
#include "server/scheduler/scheduler.h"
#include "server/shard/open_pulls.h"

namespace duetime::shard {
namespace {

// Messages handed out in one step.
constexpr size_t kDeliverPerStep = 250;

// Smaller steps of the clock, and roundings, delay by less than this what waits for a time of the
// wall clock.
constexpr int64_t kClockStepMs = 100;

}  // namespace

// Connects the scheduler and the dispatcher through one PendingWrites, and stops both when the
// journal or a read fails.
class Shard::Impl {
 public:
  Impl(uint16_t shard, const delivery::ShardLimits& limits, storage::MessageStore* store,
       delivery::TopicNames* names, wheel::SlabMemory* slabs)
      : shard_(shard),
        fire_per_step_(limits.fire_per_step),
        names_(names),
        slabs_(slabs),
        writer_(shard, store, &writes_),
        scheduler_({.shard = shard, .limits = limits.scheduler, .slabs = slabs}, store, &writes_,
                   &writer_, &dispatcher_),
        dispatcher_(PartsOf(limits, store), &scheduler_),
        message_commands_(PartsOf(limits, store), &scheduler_, &dispatcher_),
        occurrences_(PartsOf(limits, store), &scheduler_, &dispatcher_,
                     message_commands_.bulk_changes(), message_commands_.locks()),
        bulk_(PartsOf(limits, store), &scheduler_, message_commands_.bulk_changes(),
              message_commands_.locks()) {
    DT_CHECK_LT(shard, store->shard_count());
  }

  absl::Status Recover(base::Now now) {
    clock_offset_ms_ = OffsetOf(now);
    absl::Status status = scheduler_.Recover(now);
    if (!status.ok()) return status;
    status = dispatcher_.Recover(now);
    if (status.ok()) status = occurrences_.Recover();
    if (status.ok()) status = bulk_.Recover(now);
    return status;
  }

  void Handle(base::Now now, protocol::Command command) {
    FollowClock(now);
    std::visit([&](auto& alternative) { Do(now, alternative); }, command);
  }

  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
    const bool accepted = outcome == storage::AppendOutcome::kAccepted;
    if (accepted) FollowClock(now);
    writes_.Complete(now, sequence, accepted && !failed_);
    if (!accepted) Fail(now);
  }

  StepResult Step(base::Now now) {
    StepResult result;
    if (failed_) return result;
    FollowClock(now);
    if (closing_) return CloseStep(now);
    if (suspended_) {
      if (!dispatcher_.read_status().ok()) Fail(now);
      return result;
    }
    dispatcher_.BeginStep(now, &result.more);
    absl::Status status = dispatcher_.read_status();
    if (status.ok() && !stopped_) {
      status = scheduler_.Step(now, fire_per_step_, &result.more);
      if (status.ok()) status = dispatcher_.Pump(now, kDeliverPerStep, &result.more);
      if (status.ok()) status = bulk_.Step(now);
      if (status.ok() && occurrences_.Step(now)) result.more = true;
      if (status.ok()) status = dispatcher_.read_status();
    }
    if (!status.ok()) {
      // No decision is possible without the store. The shard hands out and accepts nothing more.
      Fail(now);
      return StepResult{};
    }
    AnswerPulls(now);
    dispatcher_.BackgroundStep(now, &result.more);
    if (writer_.Recount()) result.more = true;
    scheduler_.WriteLowWatermark(now);
    if (!stopped_) result.wake_wall_ms = scheduler_.NextWakeWall(now);
    result.wake_mono_ms =
        std::min({scheduler_.NextWakeMono(), dispatcher_.NextWakeMono(), pulls_.NextDeadline(),
                  stopped_ ? std::numeric_limits<uint64_t>::max() : occurrences_.NextWakeMono()});
    return result;
  }

  std::optional<PendingBatch> TakeBatch() {
    // After a failed read the open batch may be incomplete, for example with the end of a message
    // but not of its key. The next step fails the shard. No batch is taken either while a topic
    // waits to count its minutes (MessageWriter::waits_to_count).
    if (failed_ || !dispatcher_.read_status().ok() || writer_.waits_to_count()) return std::nullopt;
    if (absl::Status status = writer_.BeginWaitingCounts(); !status.ok()) {
      dispatcher_.NoteReadError(status);
      return std::nullopt;
    }
    auto batch = writes_.Take();
    if (!batch.has_value()) return std::nullopt;
    return PendingBatch{.sequence = batch->sequence,
                        .records = std::move(batch->records),
                        .durability = batch->durability};
  }

  protocol::Effects TakeEffects() {
    effects_.used_topics = writer_.TakeUsed();
    return std::exchange(effects_, protocol::Effects{});
  }

  bool failed() const { return failed_; }

  void Suspend() { suspended_ = true; }
  void Begin() { suspended_ = false; }

  void StopDispatch() {
    stopped_ = true;
    dispatcher_.Stop();
  }

  void Close() {
    StopDispatch();
    closing_ = true;
  }

  bool closed() const { return failed_ || (closed_ && dispatcher_.read_status().ok()); }

  size_t open_bytes() const { return writes_.open_bytes(); }
  bool settles_waiting() const { return !failed_ && dispatcher_.settles_waiting(); }

  protocol::ShardStats stats() const {
    protocol::ShardStats stats = stats_;
    dispatcher_.FillStats(&stats);
    const scheduler::SchedulerCounters& counters = scheduler_.counters();
    stats.accepted = counters.accepted;
    stats.loaded = counters.loaded;
    stats.claims = counters.claims;
    stats.wheel_timers = scheduler_.timers();
    stats.wheel_bytes = scheduler_.wheel_bytes();
    stats.waiting = message_commands_.waiting();
    stats.recurrences = occurrences_.size();
    stats.recurrences_stalled = occurrences_.stalled();
    stats.recurrences_made_anew = occurrences_.made_anew();
    stats.operations_running = bulk_.running();
    stats.uncommitted_batches = writes_.batches_in_flight();
    stats.fired_ms = scheduler_.fired_ms();
    stats.low_watermark_ms = scheduler_.low_watermark_ms();
    stats.claim_ms = scheduler_.claim_ms();
    stats.load_ms = scheduler_.load_ms();
    stats.failed = failed_;
    stats.dispatch_stopped = stopped_;
    return stats;
  }

  void CheckInvariants() const {
    if (failed_) return;
    scheduler_.CheckInvariants();
    dispatcher_.CheckInvariants();
  }

 private:
  static int64_t OffsetOf(base::Now now) {
    return static_cast<int64_t>(now.wall_ms) - static_cast<int64_t>(now.mono_ms);
  }
  // Comes before everything else that learns of `now`.
  void FollowClock(base::Now now) {
    if (failed_) return;
    scheduler_.FollowClock(now);
    const int64_t offset_ms = OffsetOf(now);
    if (std::abs(offset_ms - clock_offset_ms_) < kClockStepMs) return;
    clock_offset_ms_ = offset_ms;
    dispatcher_.OnClockStep(now);
  }

  void Do(base::Now now, protocol::ScheduleCommand& command) {
    Ask(now, command, &messages::MessageCommands::Schedule);
  }
  void Do(base::Now now, protocol::CancelCommand& command) {
    Ask(now, command, &messages::MessageCommands::Cancel);
  }
  void Do(base::Now now, protocol::CancelBatchCommand& command) {
    for (protocol::CancelCommand& item : command.items) Do(now, item);
  }
  void Do(base::Now now, protocol::RescheduleCommand& command) {
    Ask(now, command, &messages::MessageCommands::Reschedule);
  }
  void Do(base::Now now, protocol::GetCommand& command) {
    Ask(now, command, &messages::MessageCommands::Get);
  }
  void Do(base::Now now, protocol::InspectCommand& command) {
    if (failed_) {
      message_commands_.Refuse(command);
    } else {
      message_commands_.Inspect(now, command);
    }
  }
  template <typename C>
  void Ask(base::Now now, C& command, void (messages::MessageCommands::*handler)(base::Now, C)) {
    if (failed_) {
      message_commands_.Refuse(command);
    } else {
      (message_commands_.*handler)(now, std::move(command));
    }
  }

  void Do(base::Now now, protocol::OperationCommand& command) {
    if (failed_) {
      bulk_.Refuse(command);
    } else {
      bulk_.Handle(now, command);
    }
  }
  void Do(base::Now now, protocol::RecurrenceCommand& command) {
    if (failed_) {
      occurrences_.Refuse(command);
    } else {
      occurrences_.Handle(now, std::move(command));
    }
  }
  void Do(base::Now now, protocol::TopicCommand& command) {
    protocol::TopicReply reply{
        .tag = command.tag, .topic = command.topic, .status = base::StorageFailedError()};
    reply.next_id = scheduler_.NextId();
    if (!failed_) reply.status = SetTopic(now, command, &reply);
    if (!reply.status.ok() || !writer_.waits_to_count()) {
      effects_.replies.push_back(std::move(reply));
      return;
    }
    writes_.Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
      if (!ok) reply.status = base::StorageFailedError();
      effects_.replies.push_back(std::move(reply));
    });
  }
  absl::Status SetTopic(base::Now now, protocol::TopicCommand& command,
                        protocol::TopicReply* reply) {
    scheduler_.SkipIdsBefore(command.first_id);
    dispatcher_.SetTopic(now, command);
    message_commands_.SetTopic(command);
    writer_.Watch(command.topic, command.watch);
    absl::Status status;
    if (command.quota != nullptr) {
      status = writer_.SetQuota(command.topic, std::move(command.quota));
    }
    if (command.deleted) occurrences_.EndCompleted(command.topic);
    if (status.ok() && command.count) status = Count(command.topic, reply);
    if (!status.ok()) {
      dispatcher_.NoteReadError(status);
      return base::StorageFailedError();
    }
    return absl::OkStatus();
  }
  absl::Status Count(storage::TopicId topic, protocol::TopicReply* reply) {
    const absl::StatusOr<int64_t> pending = writer_.Pending(topic);
    if (!pending.ok()) return pending.status();
    reply->messages = static_cast<uint64_t>(std::max<int64_t>(*pending, 0));
    reply->recurrences = occurrences_.CountOf(topic);
    return absl::OkStatus();
  }

  void Do(base::Now now, protocol::SubscriptionCommand& command) {
    if (failed_) {
      dispatcher_.Refuse(command);
    } else {
      dispatcher_.Change(now, std::move(command));
    }
  }
  void Do(base::Now, protocol::InspectSubscriptionCommand& command) {
    dispatcher_.Inspect(command);
  }
  void Do(base::Now now, protocol::PullCommand& command) {
    if (failed_) {
      effects_.replies.push_back(protocol::PullReply{.tag = command.tag, .deliveries = {}});
      return;
    }
    dispatcher_.Attach(now, {.stream = command.stream,
                             .topic = command.topic,
                             .subscription = command.subscription,
                             .lease_ms = command.lease_ms,
                             .credit = command.credit,
                             .budget = command.budget});
    pulls_.Add(now, command);
  }
  void Do(base::Now, protocol::EndPullCommand& command) {
    if (failed_) return;
    const bool open = pulls_.End(command.stream);
    if (!open || !command.keep_leases) {
      dispatcher_.Detach({.stream = command.stream,
                          .keep_leases = command.keep_leases,
                          .unsent = !command.keep_leases});
    }
  }

  // The runtime ends the streams of a failed shard, so these commands need no answer.
  void Do(base::Now now, protocol::AttachCommand& command) {
    if (!failed_) dispatcher_.Attach(now, command);
  }
  void Do(base::Now, protocol::DetachCommand& command) {
    if (!failed_) dispatcher_.Detach(command);
  }
  void Do(base::Now now, protocol::SettleCommand& command) {
    if (!failed_) dispatcher_.Settle(now, std::move(command));
  }
  void Do(base::Now, protocol::CreditCommand& command) {
    if (!failed_) dispatcher_.Credit(command);
  }

  void Fail(base::Now now) {
    if (failed_) return;
    failed_ = true;
    effects_.failed = true;
    writes_.Abandon(now);
    pulls_.Answer({.wall_ms = now.wall_ms, .mono_ms = OpenPulls::kNever}, &effects_);
  }

  StepResult CloseStep(base::Now now) {
    StepResult result;
    // The last background step, or the batch of the clean stop, may have failed to read.
    if (!dispatcher_.read_status().ok()) {
      Fail(now);
      return result;
    }
    if (closed_) return result;
    result.more = dispatcher_.StepCleanStop(now);
    if (result.more) return result;
    scheduler_.GiveBackClaim();
    closed_ = true;
    return result;
  }

  // An answered Pull receives nothing more. Its leases go on.
  void AnswerPulls(base::Now now) {
    for (const protocol::StreamId stream : pulls_.Answer(now, &effects_)) {
      dispatcher_.Detach({.stream = stream, .keep_leases = true});
    }
  }

  delivery::ShardParts PartsOf(const delivery::ShardLimits& limits, storage::MessageStore* store) {
    return {.shard = shard_,
            .limits = &limits,
            .store = store,
            .writes = &writes_,
            .writer = &writer_,
            .key_locks = &key_locks_,
            .occurrences = &occurrences_,
            .effects = &effects_,
            .stats = &stats_,
            .names = names_,
            .slabs = slabs_};
  }

  const uint16_t shard_;
  const size_t fire_per_step_;
  delivery::TopicNames* const names_;
  wheel::SlabMemory* const slabs_;
  protocol::Effects effects_;
  protocol::ShardStats stats_;
  scheduler::PendingWrites writes_;
  scheduler::MessageWriter writer_;
  scheduler::KeyLocks key_locks_;
  scheduler::Scheduler scheduler_;
  delivery::Dispatcher dispatcher_;
  messages::MessageCommands message_commands_;
  recurrences::RecurrenceEngine occurrences_;
  messages::BulkRunner bulk_;
  OpenPulls pulls_;
  // Wall time minus steady time at the last step of the clock.
  int64_t clock_offset_ms_ = 0;
  bool failed_ = false;
  bool suspended_ = false;
  bool stopped_ = false;
  bool closing_ = false;
  bool closed_ = false;
};

Shard::Shard(uint16_t shard, const delivery::ShardLimits& limits, storage::MessageStore* store,
             delivery::TopicNames* names, wheel::SlabMemory* slabs)
    : impl_(std::make_unique<Impl>(shard, limits, store, names, slabs)) {}
Shard::~Shard() = default;

absl::Status Shard::Recover(base::Now now) { return impl_->Recover(now); }
void Shard::Suspend() { impl_->Suspend(); }
void Shard::Begin() { impl_->Begin(); }
void Shard::Handle(base::Now now, protocol::Command command) {
  impl_->Handle(now, std::move(command));
}
void Shard::OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome) {
  impl_->OnCommitted(now, sequence, outcome);
}
StepResult Shard::Step(base::Now now) { return impl_->Step(now); }
std::optional<PendingBatch> Shard::TakeBatch() { return impl_->TakeBatch(); }
size_t Shard::open_bytes() const { return impl_->open_bytes(); }
protocol::Effects Shard::TakeEffects() { return impl_->TakeEffects(); }
bool Shard::failed() const { return impl_->failed(); }
void Shard::StopDispatch() { impl_->StopDispatch(); }
void Shard::Close() { impl_->Close(); }
bool Shard::closed() const { return impl_->closed(); }
bool Shard::settles_waiting() const { return impl_->settles_waiting(); }
protocol::ShardStats Shard::stats() const { return impl_->stats(); }
void Shard::CheckInvariants() const { impl_->CheckInvariants(); }

}  // namespace duetime::shard
