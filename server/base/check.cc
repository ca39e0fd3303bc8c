// SPDX-License-Identifier: Apache-2.0
#include "server/base/check.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace duetime::base {

namespace {

constexpr unsigned kPrintSecondsMax = 3;

std::atomic<void (*)()>& BeforeAbort() {
  static std::atomic<void (*)()> hook{nullptr};
  return hook;
}

}  // namespace

void SetBeforeAbort(void (*hook)()) { BeforeAbort().store(hook); }

void CheckFailed(const char* file, int line, const std::string& text) {
  // A blocked write or lock must not keep a broken process alive.
  static_cast<void>(signal(SIGALRM, SIG_DFL));
  alarm(kPrintSecondsMax);
  if (void (*const hook)() = BeforeAbort().exchange(nullptr)) hook();
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace duetime::base
