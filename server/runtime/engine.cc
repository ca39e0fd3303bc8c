// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/engine.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <system_error>
#include <utility>

#include "server/base/check.h"
#include "server/protocol/commands.h"

namespace duetime::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// The maximum number of messages and leases that one turn decides: more than a step fires, so that
// settlements do not queue behind a burst, and so that more tombstones of one batch share a row. A
// message that becomes due waits for the end of the turn.
constexpr size_t kTurnWeightMax = 2'000;
// While a burst keeps all cores busy, a thread of the default priority waits for the time slices of
// other threads between its turns.
constexpr int kNice = -10;
// The longest sleep, which bounds the time to detect a step of the wall clock.
constexpr microseconds kEngineSleepMax{1'000'000};
// More than a thread ever sleeps, also for a test clock that runs fast.
constexpr uint64_t kTimeMaxMs = 1'000'000'000;
// The shortest sleep, so that a deadline that has passed but is not acted on does not make the
// thread spin.
constexpr microseconds kSleepMin{100};
// While a group is in fsync, deciding each command as it arrives gains nothing, because the next
// group cannot start. The engine then sleeps until this many commands wait, this much time passes,
// or the group is done. This saves a wake-up (one system call here and one in the sender) for most
// commands under load.
constexpr size_t kBusyWakeCommands = 64;
constexpr milliseconds kBusySleepMax{1};
// How long the records of acks wait for others to share their append. The append of a lone ack
// wakes the committer, this thread and a gRPC thread.
constexpr uint64_t kHoldMs = 2;
// How often an engine that may not deliver looks whether it may.
constexpr milliseconds kMayServeLookEvery{10};
// The shortest time between two copies of a busy engine's stats.
constexpr uint64_t kPublishPeriodMs = 100;

uint64_t Until(uint64_t deadline_ms, uint64_t now_ms) {
  return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

}  // namespace

Engine::Engine(uint16_t shard, const EngineOptions& options, const EngineContext& context)
    : shard_index_(shard),
      options_(options),
      context_(context),
      mailbox_(options.mailbox_limits),
      shard_(shard, options.shard_limits, context.store, context.names, context.slabs) {}

absl::Status Engine::Recover() {
  const absl::Status status = shard_.Recover(context_.clock->Read());
  shard_.Suspend();
  if (status.ok()) PublishStats();
  return status;
}

void Engine::Start() {
  DT_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void Engine::Join() {
  if (thread_.joinable()) thread_.join();
}

protocol::ShardStats Engine::stats() const {
  base::MutexLock lock(&stats_mutex_);
  return stats_;
}

Rest Engine::rest() const {
  base::MutexLock lock(&stats_mutex_);
  return rest_;
}

void Engine::Run() {
  pthread_setname_np(pthread_self(), ("dt-engine-" + std::to_string(shard_index_)).c_str());
  // The default timer slack lets the kernel add 50 microseconds to each sleep.
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  // On Linux this is the thread's own value.
  if (options_.engine_priority && setpriority(PRIO_PROCESS, 0, kNice) != 0 && shard_index_ == 0) {
    spdlog::info("the system does not allow engine_priority (nice {}): {}", kNice,
                 std::generic_category().message(errno));
  }
  for (;;) {
    turns_.fetch_add(1, std::memory_order_relaxed);
    const bool take = !CommandsLeft() && !AtLimit();
    mailbox_.Take(take, std::exchange(handled_, {}), &taken_);
    if (take) {
      taken_commands_.swap(taken_.commands);
      next_command_ = 0;
    }
    now_ = context_.clock->Read();
    if (taken_.begun) begun_ = true;
    FollowJournal();
    if (taken_.stop_dispatch && !std::exchange(dispatch_stopped_, true)) shard_.StopDispatch();
    HandleCompletions();
    HandleCommands();
    const shard::StepResult result = shard_.Step(now_);
    const bool submitted = !HoldsBatch(result) && SubmitBatch();
    DeliverEffects();
    const bool idle = taken_.stopping && !CommandsLeft() && !shard_.settles_waiting() &&
                      uncommitted_.empty() && !submitted;
    if (idle && shard_.closed()) break;
    if (idle) {
      shard_.Close();
    } else {
      Sleep(result);
    }
  }
  PublishStats();
}

void Engine::FollowJournal() {
  const bool dispatches = begun_ && context_.committer->MayServe(context_.clock);
  if (dispatches == dispatches_) return;
  dispatches_ = dispatches;
  if (dispatches) {
    shard_.Begin();
  } else {
    shard_.Suspend();
  }
}

void Engine::HandleCompletions() {
  for (const Completion& completion : taken_.completions) {
    DT_CHECK(!uncommitted_.empty());
    uncommitted_sum_.records -= uncommitted_.front().records;
    uncommitted_sum_.bytes -= uncommitted_.front().bytes;
    uncommitted_.pop_front();
    shard_.OnCommitted(now_, completion.sequence, completion.outcome);
  }
}

void Engine::HandleCommands() {
  size_t weight = 0;
  while (CommandsLeft() && weight < kTurnWeightMax &&
         shard_.open_bytes() < options_.uncommitted_bytes_max) {
    protocol::Command& command = taken_commands_[next_command_++];
    weight += CommandWeight(command);
    ++handled_.commands;
    handled_.bytes += CommandBytes(command);
    shard_.Handle(now_, std::move(command));
  }
}

bool Engine::HoldsBatch(const shard::StepResult& result) {
  // A test clock may stand still.
  const bool may_wait = result.batch_may_wait && !taken_.stopping && context_.rests == nullptr;
  const bool waited = hold_until_mono_ms_ <= now_.mono_ms;
  if (!may_wait || waited) {
    hold_until_mono_ms_ = kNotHeld;
  } else if (hold_until_mono_ms_ == kNotHeld) {
    hold_until_mono_ms_ = now_.mono_ms + kHoldMs;
  }
  return hold_until_mono_ms_ != kNotHeld;
}

bool Engine::SubmitBatch() {
  std::optional<shard::PendingBatch> batch = shard_.TakeBatch();
  if (!batch.has_value()) return false;
  const Uncommitted size{.records = batch->records.size(), .bytes = BytesOf(batch->records)};
  uncommitted_.push_back(size);
  uncommitted_sum_.records += size.records;
  uncommitted_sum_.bytes += size.bytes;
  context_.committer->Submit(Submission{.participant = shard_index_,
                                        .reply_to = &mailbox_,
                                        .sequence = batch->sequence,
                                        .records = std::move(batch->records),
                                        .bytes = size.bytes,
                                        .durability = batch->durability});
  return true;
}

void Engine::DeliverEffects() {
  // The process may have stood still since the turn began, so what it decided may be old. The
  // effects wait until the journal allows them. A shard that has failed waits no more, and then
  // says only that.
  const bool may_serve = context_.committer->MayServe(context_.clock);
  if (!may_serve && !shard_.failed()) return;
  protocol::Effects effects = shard_.TakeEffects();
  if (!may_serve) {
    const bool failed = effects.failed;
    effects = protocol::Effects();
    effects.failed = failed;
  }
  if (effects.empty()) return;
  // A failed read is as serious as a failed write. The promise holds for the whole daemon, so all
  // shards stop (P7).
  if (effects.failed) context_.committer->Fence();
  context_.sink->Deliver(shard_index_, std::move(effects));
}

void Engine::Sleep(const shard::StepResult& result) {
  const bool busy = result.more || (CommandsLeft() && !AtLimit());
  if (!busy || now_.mono_ms >= published_mono_ms_ + kPublishPeriodMs) PublishStats();
  if (busy) return;
  if (context_.rests != nullptr && uncommitted_.empty() && !CommandsLeft()) PublishRest(result);
  const uint64_t left_ms =
      std::min({Until(result.wake_wall_ms, now_.wall_ms), Until(result.wake_mono_ms, now_.mono_ms),
                Until(hold_until_mono_ms_, now_.mono_ms), kTimeMaxMs});
  microseconds timeout = std::min<microseconds>(context_.clock->RealTime(left_ms), kEngineSleepMax);
  // The journal does not say when deliveries may go on.
  if (!dispatches_) timeout = std::min<microseconds>(timeout, kMayServeLookEvery);
  size_t wake_commands = 1;
  if (AtLimit()) {
    wake_commands = ShardMailbox::kNoCommands;
  } else if (!uncommitted_.empty()) {
    wake_commands = kBusyWakeCommands;
    timeout = std::min<microseconds>(timeout, kBusySleepMax);
  }
  mailbox_.Wait(std::max(timeout, kSleepMin), wake_commands, std::exchange(handled_, {}));
}

void Engine::PublishRest(const shard::StepResult& result) {
  const auto wall_of = [this](uint64_t mono_ms) {
    return mono_ms == Rest::kNever ? Rest::kNever : now_.wall_ms + Until(mono_ms, now_.mono_ms);
  };
  const Rest rest{.turn = turns(),
                  .next_ms = std::min(result.wake_wall_ms, wall_of(result.wake_mono_ms)),
                  .lease_end_ms = wall_of(shard_.first_lease_end())};
  {
    base::MutexLock lock(&stats_mutex_);
    rest_ = rest;
  }
  context_.rests->Tell();
}

void Engine::PublishStats() {
  published_mono_ms_ = now_.mono_ms;
  const protocol::ShardStats stats = shard_.stats();
  base::MutexLock lock(&stats_mutex_);
  stats_ = stats;
}

}  // namespace duetime::runtime
