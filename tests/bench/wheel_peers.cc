// SPDX-License-Identifier: Apache-2.0
//
// Replaces the C library's clock_gettime with a virtual clock, so that an hour of an event loop's
// time passes in seconds.
#include "tests/bench/wheel_peers.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef DUETIME_BENCH_LOOPS

namespace duetime::bench {
uint64_t virtual_ms = 0;
}  // namespace duetime::bench

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using duetime::bench::virtual_ms;
  if (virtual_ms == 0 || clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_PROCESS_CPUTIME_ID) {
    return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  }
  time->tv_sec = static_cast<time_t>(virtual_ms / 1000);
  time->tv_nsec = static_cast<long>(virtual_ms % 1000 * 1'000'000);
  return 0;
}

#endif  // DUETIME_BENCH_LOOPS
