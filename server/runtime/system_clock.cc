// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/system_clock.h"

namespace duetime::runtime {

base::Now SystemClock::Read() {
  // Read the clocks under the lock: a reading that waited for the lock would look like a step back.
  base::MutexLock lock(&mutex_);
  return time_.Update(base::ReadMachineClocks());
}

base::ClockState SystemClock::state() {
  base::MutexLock lock(&mutex_);
  return time_.state();
}

uint64_t SystemClock::steps_back() {
  base::MutexLock lock(&mutex_);
  return time_.steps_back();
}

}  // namespace duetime::runtime
