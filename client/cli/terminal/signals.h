// SPDX-License-Identifier: Apache-2.0
//
// Signals: lets a command end in order after Ctrl-C.
#pragma once

#include <csignal>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "client/cli/command.h"

namespace duetime::cli {

// Takes signals and hands them out as numbers, until its end. REQUIRES: there is one at a time.
// Thread safety: none.
class Signals {
 public:
  Signals(std::initializer_list<int> signals = {SIGINT, SIGTERM});
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Waits for at most `timeout`. Returns the next signal, or 0 if none came.
  int Wait(absl::Duration timeout);
  // Returns true if SIGINT or SIGTERM came, now or before.
  bool Interrupted() const;
  // Readable when a signal waits.
  int fd() const { return read_; }

 private:
  int read_ = -1;
  std::vector<std::pair<int, struct sigaction>> before_{};
};

// Ends the program at SIGINT and SIGTERM, whatever the command waits for, with a last line on
// stderr. The exit code is 128 and the number of the signal, as with shells. Until its end.
class LastLine {
 public:
  // Another thread calls `text`, which says what is done and how to go on.
  LastLine(const Settings& settings, std::function<std::string()> text);
  ~LastLine();
  LastLine(const LastLine&) = delete;
  LastLine& operator=(const LastLine&) = delete;

 private:
  [[noreturn]] void End(int signal) const;

  const Settings& settings_;
  const std::function<std::string()> text_;
  Signals signals_;
  std::jthread thread_;
};

}  // namespace duetime::cli
