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

}  // namespace duetime::runtime
