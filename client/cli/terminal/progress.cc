// SPDX-License-Identifier: Apache-2.0
#include "client/cli/terminal/progress.h"

#include <unistd.h>
#include <utility>

#include "client/cli/show.h"

namespace duetime::cli {

Progress::Progress(const Settings& settings)
    : wanted_(!settings.json && isatty(STDERR_FILENO) != 0) {}

void Progress::Show(const std::string& text) {
  if (!wanted_ || Clock::now() < next_) return;
  next_ = Clock::now() + kBetweenReports;
  shown_ = true;
  PrintError("\r\033[K" + text);
}

void Progress::Clear() {
  if (std::exchange(shown_, false)) PrintError("\r\033[K");
}

}  // namespace duetime::cli
