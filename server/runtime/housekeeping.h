// SPDX-License-Identifier: Apache-2.0
//
// Housekeeping: periodic work, once a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/disk_guard.h"
#include "server/runtime/memory_return.h"
#include "server/runtime/runtime_options.h"

namespace duetime::runtime {

// The store's part of the housekeeping.
struct StoreTasks {
  // Measures the free space.
  std::function<absl::StatusOr<uint64_t>()> disk_free;
  // Writes the store's witness. May be empty.
  std::function<absl::Status()> write_witness;
  // Lets the store drop the entries that have expired by `until_ms`. May be empty.
  std::function<void(uint64_t until_ms)> drop_expired = {};
};

// One thread that once a second writes the store's witness, advances the store's expiry mark,
// measures the free disk space, checks the clock, and returns free memory. It logs changes of
// state, not every check.
//
// Thread safety: the owner calls Start and Stop. Any thread may call the accessors.
class Housekeeping {
 public:
  // REQUIRES: `clock` and the objects that `tasks` use outlive the housekeeping.
  Housekeeping(const HousekeepingOptions& options, StoreTasks tasks, base::Clock* clock);
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  // Adds a task for every check. `what` completes "cannot ..." in the log, which has the beginning
  // and the end of errors. REQUIRES: Start was not called.
  void Add(std::string what, std::function<absl::Status()> task);
  // Makes the first check before it returns, so that the accessors are correct from the start.
  void Start();
  // Idempotent.
  void Stop();

  // True while the server must refuse new messages because the disk is low.
  bool disk_low() const { return disk_low_.load(std::memory_order_relaxed); }
  // The free space at the last measurement.
  uint64_t disk_free_bytes() const { return disk_free_bytes_.load(std::memory_order_relaxed); }

 private:
  void Run();
  void Check();
  void LookAtDisk();
  void LookAtClock();
  void WriteWitness();
  void RunTasks();

  struct Task {
    std::string what;
    std::function<absl::Status()> run;
    bool ok = true;
  };

  const HousekeepingOptions options_;
  const StoreTasks tasks_;
  base::Clock* const clock_;
  std::thread thread_;
  std::atomic<bool> disk_low_{false};
  std::atomic<uint64_t> disk_free_bytes_{0};

  // Used by Start, then confined to the thread.
  DiskGuard disk_guard_;
  MemoryReturn memory_return_;
  base::ClockState clock_state_ = base::ClockState::kNormal;
  bool witness_ok_ = true;
  bool measure_ok_ = true;
  std::vector<Task> added_;

  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
