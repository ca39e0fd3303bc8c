// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/housekeeping.h"

#include <chrono>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/base/check.h"

namespace duetime::runtime {
namespace {

constexpr std::chrono::seconds kPeriod{1};

}  // namespace

Housekeeping::Housekeeping(const HousekeepingOptions& options, StoreTasks tasks, base::Clock* clock)
    : options_(options),
      tasks_(std::move(tasks)),
      clock_(clock),
      disk_guard_(options.disk_free_min_bytes) {}

Housekeeping::~Housekeeping() { Stop(); }

void Housekeeping::Start() {
  DT_CHECK(!thread_.joinable());
  Check();
  thread_ = std::thread([this] { Run(); });
}

void Housekeeping::Stop() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void Housekeeping::Run() {
  pthread_setname_np(pthread_self(), "dt-housekeeping");
  for (;;) {
    {
      base::MutexLock lock(&mutex_);
      if (!stopping_) wake_.WaitFor(&mutex_, kPeriod);
      if (stopping_) return;
    }
    Check();
  }
}

void Housekeeping::Check() {
  WriteWitness();
  if (tasks_.drop_expired) tasks_.drop_expired(clock_->Read().wall_ms);
  LookAtDisk();
  LookAtClock();
  RunTasks();
  memory_return_.Look(clock_->machine()->Read().mono_ms);
}

void Housekeeping::Add(std::string what, std::function<absl::Status()> task) {
  DT_CHECK(!thread_.joinable());
  added_.push_back({.what = std::move(what), .run = std::move(task)});
}

void Housekeeping::RunTasks() {
  for (Task& task : added_) {
    const absl::Status status = task.run();
    const bool was_ok = std::exchange(task.ok, status.ok());
    if (!status.ok() && was_ok) {
      spdlog::error("cannot {}: {}", task.what, status.ToString());
    } else if (status.ok() && !was_ok) {
      spdlog::info("can {} again", task.what);
    }
  }
}

void Housekeeping::LookAtDisk() {
  const absl::StatusOr<uint64_t> measured = tasks_.disk_free();
  const bool was_ok = std::exchange(measure_ok_, measured.ok());
  if (!measured.ok()) {
    // Keep the last measurement, which is the best guess.
    if (was_ok)
      spdlog::error("cannot measure the free disk space: {}", measured.status().ToString());
    return;
  }
  const uint64_t free_bytes = *measured;
  disk_free_bytes_.store(free_bytes, std::memory_order_relaxed);
  const bool low = disk_guard_.Update(free_bytes);
  if (low == disk_low_.exchange(low, std::memory_order_relaxed)) return;
  if (low) {
    spdlog::warn("disk low: {} bytes free, {} wanted; new messages are refused", free_bytes,
                 options_.disk_free_min_bytes);
  } else {
    spdlog::info("disk no longer low: {} bytes free; new messages are accepted", free_bytes);
  }
}

void Housekeeping::LookAtClock() {
  const base::ClockState state = clock_->state();
  if (state == std::exchange(clock_state_, state)) return;
  switch (state) {
    case base::ClockState::kNormal:
      spdlog::info("the wall clock agrees with the steady clock again");
      break;
    case base::ClockState::kTest:
      break;  // the start has said it
    case base::ClockState::kSetBack:
      spdlog::error(
          "the wall clock was set back, and server time with it. What was delivered before may "
          "have "
          "been early by the corrected clock; nothing is early from now on");
      break;
    case base::ClockState::kAhead:
      spdlog::error(
          "the wall clock jumped ahead by more than the limit and is not believed; server time "
          "goes "
          "on without the jump. If the new time is right, restart the server");
      break;
  }
}

void Housekeeping::WriteWitness() {
  if (!tasks_.write_witness) return;
  const absl::Status status = tasks_.write_witness();
  const bool was_ok = std::exchange(witness_ok_, status.ok());
  if (!status.ok() && was_ok) {
    spdlog::error("cannot write the witness file: {}", status.ToString());
  } else if (status.ok() && !was_ok) {
    spdlog::info("the witness file is written again");
  }
}

}  // namespace duetime::runtime
