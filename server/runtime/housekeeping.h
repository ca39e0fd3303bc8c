// SPDX-License-Identifier: Apache-2.0
//
// Housekeeping: what must be looked after once a second.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/disk_guard.h"

namespace duetime::runtime {

struct HousekeepingOptions {
  // Below this, new messages are refused; 0 never refuses.
  uint64_t disk_free_min_bytes = 0;
  // Measures the free space.
  std::function<absl::StatusOr<uint64_t>()> disk_free;
  // Writes the store's witness of how far it got. May be empty.
  std::function<absl::Status()> write_witness;
  // Lets the store drop what is remembered no longer than until then. May be empty.
  std::function<void(uint64_t until_ms)> drop_expired = {};
};

// One thread that each second writes the store's witness, tells the store the time up to which it
// need not remember, measures the free disk space, and looks at the clock's state. It logs when one
// of them changes for the worse or the better, not every time. Thread safety: Start and Stop by the
// owner; the rest from any thread.
class Housekeeping {
 public:
  // REQUIRES: `clock` and what the callbacks use outlive it.
  Housekeeping(HousekeepingOptions options, base::Clock* clock);
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  // Looks once before it returns, so that what it tells is true from the start.
  void Start();
  // Idempotent.
  void Stop();

  // True while new messages must be refused for want of disk space.
  bool disk_low() const { return disk_low_.load(std::memory_order_relaxed); }
  // The last measurement.
  uint64_t disk_free_bytes() const { return disk_free_bytes_.load(std::memory_order_relaxed); }

 private:
  void Run();
  void Look();
  void LookAtDisk();
  void LookAtClock();
  void WriteWitness();

  const HousekeepingOptions options_;
  base::Clock* const clock_;
  std::thread thread_;
  std::atomic<bool> disk_low_{false};
  std::atomic<uint64_t> disk_free_bytes_{0};

  // Start, then the thread only.
  DiskGuard disk_guard_;
  base::ClockState clock_state_ = base::ClockState::kNormal;
  bool witness_ok_ = true;
  bool measure_ok_ = true;

  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
