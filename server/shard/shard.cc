// SPDX-License-Identifier: Apache-2.0
#include "server/shard/shard.h"

#include <algorithm>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/assembly.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/clean_stop.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/expiry.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/endings/retention.h"
#include "server/delivery/hand_out.h"
#include "server/delivery/leases.h"
#include "server/delivery/offers.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/messages/bulk_runner.h"
#include "server/messages/message_parts.h"
#include "server/protocol/commands.h"
#include "server/protocol/reply_to.h"
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
// The longest time between two searches for messages that are too old.
constexpr uint64_t kSearchPeriodMaxMs = 60'000;

}  // namespace

// Owns the parts of the shard and calls them in order. A part never calls one that is listed after
// it, but for two calls: due messages go from the scheduler to Offers, and from there and from
// cancels to the recurrences.
class Shard::Impl {
 public:
  Impl(uint16_t shard, const delivery::ShardLimits& limits, storage::MessageStore* store,
       delivery::TopicNames* names, wheel::SlabMemory* slabs)
      : fire_per_step_(limits.fire_per_step),
        search_period_ms_(std::min(limits.scheduler.low_watermark_period_ms, kSearchPeriodMaxMs)),
        test_clock_(limits.test_clock),
        writer_(shard, store, &writes_, limits.scheduler.recent_messages_max),
        scheduler_({.shard = shard, .limits = limits.scheduler, .slabs = slabs}, store, &writes_,
                   &writer_),
        delivery_({.shard = shard,
                   .limits = &limits,
                   .store = store,
                   .writes = &writes_,
                   .writer = &writer_,
                   .key_locks = &key_locks_,
                   .effects = &effects_,
                   .stats = &stats_,
                   .names = names,
                   .slabs = slabs},
                  &scheduler_),
        core_(delivery_.core()),
        parts_(delivery_.parts()),
        messages_(core_, parts_.ends, parts_.status),
        occurrences_(core_, &messages_.bulk_changes, &messages_.locks),
        bulk_(core_, &messages_.bulk_changes, &messages_.locks) {
    DT_CHECK_LT(shard, store->shard_count());
    delivery_.SetOccurrences(&occurrences_);
  }

  absl::Status Recover(base::Now now) {
    clock_offset_ms_ = OffsetOf(now);
    absl::Status status = scheduler_.Recover(now);
    if (!status.ok()) return status;
    status = parts_.changes->Recover(now);
    if (status.ok()) status = core_.backlog.Recover();
    if (status.ok()) status = occurrences_.Recover();
    if (status.ok()) status = bulk_.Recover(now);
    return status;
  }

  void Handle(base::Now now, protocol::Command command) {
    FollowClock(now);
    std::visit([&](auto& one) { failed_ ? Refuse(one) : Do(now, one); }, command);
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
      if (!core_.reader.ok()) Fail(now);
      return result;
    }
    // First, so that a settlement that came in time is not refused.
    if (parts_.lease_ends->Step(now)) result.more = true;
    absl::Status status = core_.reader.status();
    if (status.ok() && !stopped_) {
      status = scheduler_.Step(now, fire_per_step_, parts_.offers, &result.more);
      if (status.ok()) status = Deliver(now, &result.more);
      if (status.ok()) status = bulk_.Step(now);
      if (status.ok() && occurrences_.Step(now)) result.more = true;
      if (status.ok()) status = core_.reader.status();
    }
    if (!status.ok()) {
      // No decision is possible without the store. The shard hands out and accepts nothing more.
      Fail(now);
      return StepResult{};
    }
    AnswerPulls(now);
    Background(now, &result.more);
    if (writer_.Recount()) result.more = true;
    scheduler_.WriteLowWatermark(now);
    if (!stopped_) result.wake_wall_ms = scheduler_.NextWakeWall(now);
    if (test_clock_ && !stopped_) {
      // What is too old and could not be dropped waits for something else.
      const uint64_t too_old_ms = parts_.retention->NextTooOld();
      if (too_old_ms > now.wall_ms) result.wake_wall_ms = std::min(result.wake_wall_ms, too_old_ms);
    }
    result.wake_mono_ms =
        std::min({scheduler_.NextWakeMono(), DeliveryWakeMono(), pulls_.NextDeadline(),
                  stopped_ ? std::numeric_limits<uint64_t>::max()
                           : std::min(occurrences_.NextWakeMono(), bulk_.NextWakeMono())});
    // A message may wait for credit, or for the message before it in its ordering key.
    result.batch_may_wait = writes_.may_wait() &&
                            core_.table.count(delivery::EntryState::kReady) == 0 &&
                            core_.table.count(delivery::EntryState::kBlocked) == 0;
    return result;
  }

  std::optional<PendingBatch> TakeBatch() {
    // After a failed read the open batch may be incomplete, for example with the end of a message
    // but not of its key. The next step fails the shard. No batch is taken either while a topic
    // waits to count its minutes (MessageWriter::waits_to_count).
    if (failed_ || !core_.reader.ok() || writer_.waits_to_count()) return std::nullopt;
    if (absl::Status status = writer_.BeginWaitingCounts(); !status.ok()) {
      core_.reader.Fail(status);
      return std::nullopt;
    }
    return writes_.Take();
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
    parts_.lease_ends->Stop();
  }

  void Close() {
    StopDispatch();
    closing_ = true;
  }

  bool closed() const { return failed_ || (closed_ && core_.reader.ok()); }

  size_t open_bytes() const { return writes_.open_bytes(); }
  bool settles_waiting() const { return !failed_ && parts_.lease_ends->waiting() > 0; }

  uint64_t first_lease_end() const { return core_.leases.FirstEnd(); }

  protocol::ShardStats stats() const {
    protocol::ShardStats stats = stats_;
    stats.due_ready = core_.table.count(delivery::EntryState::kReady);
    stats.in_flight = core_.table.count(delivery::EntryState::kInFlight);
    stats.delayed = core_.table.count(delivery::EntryState::kDelayed);
    stats.blocked = core_.table.count(delivery::EntryState::kBlocked);
    stats.slowed = core_.subscriptions.slowed();
    stats.settling = parts_.lease_ends->waiting();
    stats.streams = core_.streams.size();
    stats.topics_behind = core_.backlog.behind();
    stats.subscriptions = core_.subscriptions.size();
    const scheduler::SchedulerCounters& counters = scheduler_.counters();
    stats.accepted = counters.accepted;
    stats.loaded = counters.loaded;
    stats.claims = counters.claims;
    stats.wheel_timers = scheduler_.timers();
    stats.wheel_bytes = scheduler_.wheel_bytes();
    stats.recent_bytes = writer_.recent().bytes();
    stats.waiting = messages_.locks.waiting();
    stats.recurrences = occurrences_.size();
    stats.recurrences_stalled = occurrences_.stalled();
    stats.recurrences_made_anew = occurrences_.made_anew();
    stats.operations_running = bulk_.running();
    stats.uncommitted_batches = writes_.batches_in_flight();
    stats.timer_next_ms = scheduler_.next_ms();
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
    delivery_.CheckInvariants();
    messages_.locks.CheckInvariants();
    occurrences_.CheckInvariants();
    bulk_.CheckInvariants();
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
    parts_.pacing->OnClockStep(now);
  }

  // ---- The parts of a step

  // Reads back from disk, and hands out.
  absl::Status Deliver(base::Now now, bool* more) {
    // The messages that became due may have failed a read.
    if (!core_.reader.ok()) return core_.reader.status();
    if (absl::Status status = parts_.backlog_reader->Step(now); !status.ok()) return status;
    absl::Status status = parts_.hand_out->Step(now, kDeliverPerStep, more);
    if (!status.ok()) return status;
    core_.turns.ReadBackIfRoom();
    if (core_.turns.any_to_read_back()) *more = true;
    return core_.reader.status();
  }

  // Releases and fills subscriptions, drops messages beyond their retention, and lists messages
  // that have been unsettled for too long.
  void Background(base::Now now, bool* more) {
    if (parts_.release->Step(now)) *more = true;
    if (parts_.fill->Step()) *more = true;
    if (test_clock_ || now.mono_ms >= next_search_mono_ms_) {
      bool again = parts_.retention->Step(now);
      if (parts_.expiry->Step(now)) again = true;
      next_search_mono_ms_ = now.mono_ms + (again ? 0 : search_period_ms_);
      core_.backlog.CollectOld(now);
    }
    if (core_.backlog.ListOld()) *more = true;
  }

  uint64_t DeliveryWakeMono() const {
    const uint64_t timer_ms = core_.timers.NextDue();
    const bool waits = core_.table.size() > 0 || core_.backlog.behind() > 0;
    const bool retains = !test_clock_ && !core_.subscriptions.retaining().empty();
    const bool searches = core_.scheduler.low_watermark()->pinned() > 0 ||
                          (waits && (retains || parts_.expiry->any_limited()));
    return searches ? std::min(timer_ms, next_search_mono_ms_) : timer_ms;
  }

  // ---- Commands after a failure

  // Commands of streams need no answer: the runtime ends the streams of a failed shard.
  template <typename Command>
  void Refuse(const Command& command) {
    // Not a constraint: a command without a line in reply_to.h must not compile.
    using Reply = typename protocol::ReplyOf<Command>::Type;
    if constexpr (!std::is_void_v<Reply>) {
      core_.Answer(protocol::ReplyTo(command, base::StorageFailedError()));
    }
  }
  void Refuse(const protocol::CancelBatchCommand& command) {
    for (const protocol::CancelCommand& item : command.items) Refuse(item);
  }
  // A Pull ends without messages.
  void Refuse(const protocol::PullCommand& command) {
    core_.Answer(protocol::PullReply{.tag = command.tag, .deliveries = {}});
  }
  // It is answered from memory. At most an ordering key is missing in the answer.
  void Refuse(const protocol::InspectSubscriptionCommand& command) {
    parts_.changes->Inspect(command);
  }

  // ---- Commands

  void Do(base::Now now, protocol::ScheduleCommand& command) {
    messages_.schedule.Schedule(now, std::move(command));
  }
  void Do(base::Now now, protocol::CancelCommand& command) {
    messages_.change.Cancel(now, std::move(command));
  }
  void Do(base::Now now, protocol::CancelBatchCommand& command) {
    for (protocol::CancelCommand& item : command.items) Do(now, item);
  }
  void Do(base::Now now, protocol::RescheduleCommand& command) {
    messages_.change.Reschedule(now, std::move(command));
  }
  void Do(base::Now now, protocol::GetCommand& command) {
    messages_.queries.Get(now, std::move(command));
  }
  void Do(base::Now now, protocol::InspectCommand& command) {
    messages_.queries.Inspect(now, command);
  }
  void Do(base::Now now, protocol::OperationCommand& command) { bulk_.Handle(now, command); }
  void Do(base::Now now, protocol::RecurrenceCommand& command) {
    occurrences_.Handle(now, std::move(command));
  }

  void Do(base::Now now, protocol::TopicCommand& command) {
    protocol::TopicReply reply = protocol::ReplyTo(command);
    reply.next_id = scheduler_.NextId();
    reply.status = SetTopic(now, command, &reply);
    if (!reply.status.ok() || !writer_.waits_to_count()) {
      core_.Answer(std::move(reply));
    } else {
      core_.AnswerAfterCommit(std::move(reply));
    }
  }
  absl::Status SetTopic(base::Now now, protocol::TopicCommand& command,
                        protocol::TopicReply* reply) {
    scheduler_.SkipIdsBefore(command.first_id);
    parts_.changes->SetTopic(now, command);
    messages_.minute_limits.Set(command);
    messages_.index.SetFirstId(command.topic, command.first_id);
    writer_.Watch(command.topic, std::move(command.use));
    absl::Status status;
    if (command.quota != nullptr) {
      status = writer_.SetQuota(command.topic, std::move(command.quota));
    }
    if (command.deleted) occurrences_.EndCompleted(command.topic);
    if (status.ok() && command.count) status = Count(command.topic, reply);
    if (!status.ok()) {
      core_.reader.Fail(status);
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
    parts_.changes->Change(now, std::move(command));
  }
  void Do(base::Now, protocol::InspectSubscriptionCommand& command) {
    parts_.changes->Inspect(command);
  }
  void Do(base::Now, protocol::ActivityCommand& command) { parts_.changes->Inspect(command); }

  void Do(base::Now now, protocol::PullCommand& command) {
    parts_.changes->Attach(now, {.stream = command.stream,
                                 .topic = command.topic,
                                 .subscription = command.subscription,
                                 .lease_ms = command.lease_ms,
                                 .credit = command.credit,
                                 .client_id = command.client_id,
                                 .budget = command.budget});
    pulls_.Add(now, command);
  }
  void Do(base::Now, protocol::EndPullCommand& command) {
    const bool open = pulls_.End(command.stream);
    if (!open || !command.keep_leases) {
      core_.streams.Detach({.stream = command.stream,
                            .keep_leases = command.keep_leases,
                            .unsent = !command.keep_leases});
    }
  }
  void Do(base::Now now, protocol::AttachCommand& command) { parts_.changes->Attach(now, command); }
  void Do(base::Now, protocol::DetachCommand& command) { core_.streams.Detach(command); }
  void Do(base::Now now, protocol::SettleCommand& command) {
    parts_.lease_ends->Settle(now, std::move(command));
  }
  void Do(base::Now, protocol::CreditCommand& command) { core_.streams.TryAgain(command.stream); }

  // ---- The end

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
    if (!core_.reader.ok()) {
      Fail(now);
      return result;
    }
    if (closed_) return result;
    DT_CHECK(stopped_);
    result.more = parts_.clean_stop->Step(now);
    if (result.more) return result;
    scheduler_.GiveBackClaim();
    closed_ = true;
    return result;
  }

  // An answered Pull receives nothing more. Its leases go on.
  void AnswerPulls(base::Now now) {
    for (const protocol::StreamId stream : pulls_.Answer(now, &effects_)) {
      core_.streams.Detach({.stream = stream, .keep_leases = true});
    }
  }

  const size_t fire_per_step_;
  const uint64_t search_period_ms_;
  const bool test_clock_;
  protocol::Effects effects_;
  protocol::ShardStats stats_;
  scheduler::PendingWrites writes_;
  scheduler::MessageWriter writer_;
  scheduler::KeyLocks key_locks_;
  scheduler::Scheduler scheduler_;
  delivery::DeliveryAssembly delivery_;
  const delivery::Core& core_;
  const delivery::DeliveryParts& parts_;
  messages::MessageParts messages_;
  recurrences::RecurrenceEngine occurrences_;
  messages::BulkRunner bulk_;
  OpenPulls pulls_;
  // Wall time minus steady time at the last step of the clock.
  int64_t clock_offset_ms_ = 0;
  // When Background looks for old messages next.
  uint64_t next_search_mono_ms_ = 0;
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
uint64_t Shard::first_lease_end() const { return impl_->first_lease_end(); }
protocol::ShardStats Shard::stats() const { return impl_->stats(); }
void Shard::CheckInvariants() const { impl_->CheckInvariants(); }

}  // namespace duetime::shard
