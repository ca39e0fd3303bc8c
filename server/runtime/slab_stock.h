// SPDX-License-Identifier: Apache-2.0
//
// SlabStock: memory for the wheels, made ready by a thread that has the time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>

#include "server/base/mutex.h"
#include "server/wheel/slab_memory.h"

namespace duetime::runtime {

// Keeps a few slabs ready that have been written to, so that an engine that needs one finds its
// pages there, and takes back what engines return. Asking the system for pages, and giving them
// back to it, is done by a thread of the stock's own: either takes as long as many messages.
//
// Guarantees: (1) Take never waits for the thread: when nothing is ready it returns a slab whose
// pages are not there yet, which costs the caller a page fault for each 4 KiB as it writes to them;
// (2) at most kReadyMax slabs are kept, all others are given back to the system.
// Cost: Take and Give a lock that is hardly contended; kReadyLow to kReadyMax slabs of 256 KiB.
// Thread safety: Start and Stop by the owner, the rest from any thread.
class SlabStock final : public wheel::SlabMemory {
 public:
  // Below this many an engine wakes the thread, which makes slabs until there are kReadyFull. Above
  // kReadyMax it gives back until there are so many.
  static constexpr size_t kReadyLow = 2;
  static constexpr size_t kReadyFull = 4;
  static constexpr size_t kReadyMax = 8;

  SlabStock() = default;
  // REQUIRES: every slab is given back.
  ~SlabStock() override;
  SlabStock(const SlabStock&) = delete;
  SlabStock& operator=(const SlabStock&) = delete;

  // Makes the first slabs ready, then starts the thread.
  void Start();
  // Take and Give go on to work without the thread. Idempotent.
  void Stop();

  void* Take() override;
  void Give(void* slab) override;

  // Slabs that are ready, or have been given back and are still there.
  size_t ready() const;
  // True while the thread waits to be woken. For tests.
  bool asleep() const;

 private:
  void Run();
  // Makes slabs, or gives them back to the system, until there are as many as there should be.
  void Level();
  // True if the thread is to be woken.
  bool Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the thread has something to do.
  bool Uneven() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ready_.size() < kReadyLow || ready_.size() > kReadyMax;
  }

  std::thread thread_;
  mutable base::Mutex mutex_;
  base::CondVar wake_;
  // Taken from and given to at the back, as what was used last is the likeliest to be in a cache.
  std::deque<void*> ready_ ABSL_GUARDED_BY(mutex_);
  // Counts Take and Give.
  uint64_t moves_ ABSL_GUARDED_BY(mutex_) = 0;
  // The thread waits to be woken, and nobody has done so yet.
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
