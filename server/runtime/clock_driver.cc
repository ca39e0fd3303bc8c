// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/clock_driver.h"

#include <algorithm>
#include <chrono>
#include <pthread.h>
#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"

namespace duetime::runtime {
namespace {

// How often the driver looks for what nobody tells it: the end of its time, and a client that has
// gone.
constexpr std::chrono::milliseconds kDriverLookEvery{1};

absl::Status RunningError() {
  return base::MakeError(absl::StatusCode::kFailedPrecondition, "another call moves the clock",
                         {.reason = "ADVANCE_RUNNING", .field = "", .metadata = {}});
}

ClockEvents Difference(const ClockEvents& after, const ClockEvents& before) {
  return {.fired = after.fired - before.fired,
          .handed_out = after.handed_out - before.handed_out,
          .acked = after.acked - before.acked,
          .nacked = after.nacked - before.nacked,
          .leases_lost = after.leases_lost - before.leases_lost,
          .expired = after.expired - before.expired,
          .dead_lettered = after.dead_lettered - before.dead_lettered,
          .dropped = after.dropped - before.dropped};
}

// What clients do at any time, such as an ack, is no event of the clock.
bool TimeDidSomething(ClockEvents before, const ClockEvents& after) {
  before.acked = after.acked;
  before.nacked = after.nacked;
  return before != after;
}

}  // namespace

ClockDriver::ClockDriver(TestClock* clock, Node* node) : clock_(clock), node_(node) {}

ClockDriver::~ClockDriver() { Stop(); }

void ClockDriver::Start() {
  DT_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void ClockDriver::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_.store(true);
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status ClockDriver::Advance(const AdvanceOptions& options,
                                  std::shared_ptr<std::atomic<bool>> gone, Done done) {
  {
    base::MutexLock lock(&mutex_);
    if (stopping_.load()) return base::DrainingError();
    if (job_.has_value()) return RunningError();
    job_ = Job{.options = options, .gone = std::move(gone), .done = std::move(done)};
  }
  wake_.NotifyAll();
  return absl::OkStatus();
}

absl::Status ClockDriver::SetPace(ClockPace pace) {
  {
    base::MutexLock lock(&mutex_);
    if (job_.has_value()) return RunningError();
    clock_->SetPace(pace);
  }
  // Their sleeps are those of the former pace.
  node_->WakeShards(Rest::kNever);
  return absl::OkStatus();
}

void ClockDriver::Run() {
  pthread_setname_np(pthread_self(), "dt-clock");
  for (;;) {
    Job job;
    {
      base::MutexLock lock(&mutex_);
      while (!job_.has_value() && !stopping_.load()) wake_.Wait(&mutex_);
      if (!job_.has_value()) return;
      job = *job_;
    }
    auto report = Carry(job);
    {
      // Before the report, whose receiver may call Advance again.
      base::MutexLock lock(&mutex_);
      job_.reset();
    }
    job.done(std::move(report));
  }
}

absl::StatusOr<AdvanceReport> ClockDriver::Carry(const Job& job) {
  clock_->Hold();
  node_->ListHandOuts(job.options.listed_max);
  const ClockEvents before = Events();
  const absl::StatusOr<AdvanceStop> stop = Move(job);
  AdvanceReport report{.wall_ms = clock_->Read().wall_ms,
                       .events = Difference(Events(), before),
                       .hand_outs = node_->TakeHandOuts()};
  clock_->Release();
  node_->WakeShards(Rest::kNever);
  if (!stop.ok()) return stop.status();
  report.stop = *stop;
  return report;
}

absl::StatusOr<AdvanceStop> ClockDriver::Move(const Job& job) {
  const AdvanceOptions& options = job.options;
  base::Clock* const machine = clock_->machine();
  const uint64_t end_ms = machine->Read().mono_ms + options.timeout_ms;
  // At the first rest, because earlier figures may be old.
  std::optional<ClockEvents> before;
  for (;;) {
    if (stopping_.load()) return base::DrainingError();
    if (job.gone->load()) return absl::CancelledError("the client has gone");
    if (node_->failed()) return base::StorageFailedError();
    const uint64_t now_ms = clock_->Read().wall_ms;
    const std::optional<Rest> rest = node_->RestAt(now_ms);
    const bool held = rest.has_value() && rest->lease_end_ms != Rest::kNever;
    bool waits = !rest.has_value() || (held && options.until_idle);
    // A shard that was in a turn meanwhile may not have seen the present time.
    if (!rest.has_value()) node_->WakeShards(now_ms);
    if (!waits) {
      if (!before.has_value()) before = Events();
      if (options.to_next && TimeDidSomething(*before, Events())) return AdvanceStop::kReached;
      if (now_ms >= options.to_ms) {
        return options.to_next ? AdvanceStop::kNothing : AdvanceStop::kReached;
      }
      const uint64_t next_ms = std::min(rest->next_ms, options.to_ms);
      if (options.to_next && rest->next_ms > options.to_ms) return AdvanceStop::kNothing;
      waits = !options.end_leases && rest->lease_end_ms <= next_ms;
      if (!waits) {
        clock_->MoveTo(next_ms);
        node_->WakeShards(next_ms);
        continue;
      }
    }
    if (machine->Read().mono_ms >= end_ms) {
      return held ? AdvanceStop::kSubscribers : AdvanceStop::kTimeout;
    }
    node_->AwaitRest(kDriverLookEvery);
  }
}

ClockEvents ClockDriver::Events() const {
  ClockEvents sum;
  for (const protocol::ShardStats& stats : node_->shard_stats()) {
    sum.fired += stats.fired;
    sum.handed_out += stats.delivered;
    sum.acked += stats.acked;
    sum.nacked += stats.nacked;
    sum.leases_lost += stats.leases_lost;
    sum.expired += stats.expired;
    sum.dead_lettered += stats.dead_lettered;
    sum.dropped += stats.dropped;
  }
  return sum;
}

}  // namespace duetime::runtime
