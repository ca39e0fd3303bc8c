// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/signals.h"

#include <pthread.h>
#include <signal.h>

#include "server/base/check.h"

namespace duetime::runtime {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSignals();
  DT_CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  DT_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

int WaitForStopSignal() {
  const sigset_t set = StopSignals();
  int signal_number = 0;
  DT_CHECK_EQ(sigwait(&set, &signal_number), 0);
  return signal_number;
}

bool StopSignalWithin(std::chrono::milliseconds timeout) {
  const sigset_t set = StopSignals();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec wait{.tv_sec = seconds.count(),
                      .tv_nsec = std::chrono::nanoseconds(timeout - seconds).count()};
  return sigtimedwait(&set, nullptr, &wait) > 0;
}

}  // namespace duetime::runtime
