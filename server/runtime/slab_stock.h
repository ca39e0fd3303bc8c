// SPDX-License-Identifier: Apache-2.0
//
// SlabStock: memory for the wheels, prepared by a separate thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>

#include "server/base/mutex.h"
#include "server/wheel/slab_memory.h"

namespace duetime::runtime {

// Keeps a few slabs whose pages the system has already mapped, so that an engine does not wait for
// page faults. Takes back slabs from engines. A separate thread allocates and frees slabs, because
// each of these takes as long as handling many messages.
//
// Guarantees: (1) Take never waits for the thread: without a ready slab it returns a fresh one,
// which costs the caller a page fault per 4 KiB; (2) the stock keeps at most kReadyMax slabs and
// frees all others. Cost: Take and Give use a lock that is rarely contended; kReadyLow to kReadyMax
// slabs of 256 KiB. Thread safety: the owner calls Start and Stop; all else from any thread.
class SlabStock final : public wheel::SlabMemory {
 public:
  // Below kReadyLow slabs, an engine wakes the thread, which allocates up to kReadyFull. Above
  // kReadyMax the thread frees down to kReadyMax.
  static constexpr size_t kReadyLow = 2;
  static constexpr size_t kReadyFull = 4;
  static constexpr size_t kReadyMax = 8;

  SlabStock() = default;
  // REQUIRES: every slab was given back.
  ~SlabStock() override;
  SlabStock(const SlabStock&) = delete;
  SlabStock& operator=(const SlabStock&) = delete;

  // Allocates the first slabs, then starts the thread.
  void Start();
  // Stops the thread. Take and Give work without it. Idempotent.
  void Stop();

  void* Take() override;
  void Give(void* slab) override;

  // The slabs in stock.
  size_t ready() const;
  // True while the thread sleeps. For tests.
  bool asleep() const;

 private:
  void Run();
  // Allocates or frees slabs until their number is in range.
  void Level();
  // Returns true if the caller must wake the thread.
  bool Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the thread has work.
  bool Uneven() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ready_.size() < kReadyLow || ready_.size() > kReadyMax;
  }

  std::thread thread_;
  mutable base::Mutex mutex_;
  base::CondVar wake_;
  // Used as a stack, because the last used slab is the likeliest to be in a cache.
  std::deque<void*> ready_ ABSL_GUARDED_BY(mutex_);
  // Counts Take and Give.
  uint64_t moves_ ABSL_GUARDED_BY(mutex_) = 0;
  // True if the thread sleeps, and no caller has woken it yet.
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
