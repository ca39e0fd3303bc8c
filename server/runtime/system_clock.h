// SPDX-License-Identifier: Apache-2.0
//
// SystemClock: the server's time from the machine's clocks.
#pragma once

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/runtime_options.h"

namespace duetime::runtime {

// Reads the machine's clocks and applies base::ServerTime for all readers. Cost: two vDSO calls and
// an uncontended lock. Thread-safe.
class SystemClock final : public base::Clock {
 public:
  explicit SystemClock(const ClockOptions& options = {}) : time_(options.forward_step_max_ms) {}

  base::Now Read() override;
  base::ClockState state() override;
  uint64_t steps_back() override;

 private:
  base::Mutex mutex_;
  base::ServerTime time_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::runtime
