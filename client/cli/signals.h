// SPDX-License-Identifier: Apache-2.0
//
// Signals: lets a command end in order after Ctrl-C.
#pragma once

#include <initializer_list>
#include <signal.h>

#include "absl/time/time.h"

namespace duetime::cli {

// Holds back signals and hands them out as numbers, until its end.
//
// REQUIRES: created on the main thread before other threads were started, so that no thread gets
// the signals in another way. Thread safety: none.
class Signals {
 public:
  explicit Signals(std::initializer_list<int> signals = {SIGINT, SIGTERM});
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Waits for at most `timeout`. Returns the next signal, or 0 if none came.
  int Wait(absl::Duration timeout);
  // Returns true if one of SIGINT and SIGTERM came, now or before.
  bool Interrupted();
  // Readable when a signal waits.
  int fd() const { return fd_; }

 private:
  sigset_t before_{};
  int fd_ = -1;
  bool interrupted_ = false;
};

}  // namespace duetime::cli
