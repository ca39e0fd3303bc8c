// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/signals.h"

#include <algorithm>
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

sigset_t AllSignals() {
  sigset_t set = StopSignals();
  sigaddset(&set, SIGHUP);
  return set;
}

// Returns the signal's number, or -1 after the time.
int WaitFor(const sigset_t& set, std::chrono::milliseconds timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec wait{.tv_sec = seconds.count(),
                      .tv_nsec = std::chrono::nanoseconds(timeout - seconds).count()};
  return sigtimedwait(&set, nullptr, &wait);
}

}  // namespace

void BlockSignals() {
  const sigset_t set = AllSignals();
  DT_CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  DT_CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

int WaitForSignal(std::chrono::milliseconds timeout) {
  return std::max(0, WaitFor(AllSignals(), timeout));
}

bool StopSignalWithin(std::chrono::milliseconds timeout) {
  return WaitFor(StopSignals(), timeout) > 0;
}

}  // namespace duetime::runtime
