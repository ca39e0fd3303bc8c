// SPDX-License-Identifier: Apache-2.0
//
// Rest: an engine that has nothing left to do until its clock moves. For test clocks.
#pragma once

#include <chrono>
#include <cstdint>

#include "server/base/mutex.h"

namespace duetime::runtime {

// What an engine, or all of a node, waits for when everything that its time allows is decided,
// committed and answered.
struct Rest {
  static constexpr uint64_t kNever = UINT64_MAX;

  // The turn of the engine that ended so; 0 if its last turn did not.
  uint64_t turn = 0;
  // When the engine has to do something again, if no command comes.
  uint64_t next_ms = kNever;
  // When the first lease ends.
  uint64_t lease_end_ms = kNever;
};

// Tells one thread that an engine may have come to rest. Thread-safe.
class RestWatch {
 public:
  void Tell() {
    {
      base::MutexLock lock(&mutex_);
      told_ = true;
    }
    wake_.NotifyOne();
  }
  // Returns when Tell was called since the last Wait, or after `timeout`.
  void Wait(std::chrono::milliseconds timeout) {
    base::MutexLock lock(&mutex_);
    if (!told_) wake_.WaitFor(&mutex_, timeout);
    told_ = false;
  }

 private:
  base::Mutex mutex_;
  base::CondVar wake_;
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::runtime
