// SPDX-License-Identifier: Apache-2.0
//
// Progress: one line on stderr that says how far a long command is.
#pragma once

#include <chrono>
#include <string>

#include "client/cli/command.h"

namespace duetime::cli {

// Shows a line at a terminal once the command has run for a second, and replaces it a few times a
// second. Prints nothing elsewhere and with --json. The end of this object removes the line.
class Progress {
 public:
  explicit Progress(const Settings& settings);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(const std::string& text);
  // Removes the line, so that other output may follow.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  const bool wanted_;
  Clock::time_point next_ = Clock::now() + std::chrono::seconds(1);
  bool shown_ = false;
};

}  // namespace duetime::cli
