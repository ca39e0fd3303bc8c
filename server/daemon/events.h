// SPDX-License-Identifier: Apache-2.0
//
// What main does while the daemon serves: it waits for signals, and for the end of a failure.
#pragma once

#include <chrono>
#include <functional>

#include "server/config/config.h"

namespace duetime {

// How the daemon was started.
struct Invocation {
  int argc = 0;
  const char* const* argv = nullptr;
};

// Waits for SIGTERM or SIGINT and returns its number; or returns 0 once `ended`, which it asks
// every `look_every`. On SIGHUP it reads the command line's configuration file again, and puts its
// log_level into force. Other knobs need a restart; a log line names those that differ. A file with
// faults changes nothing.
int WaitForStop(const Invocation& invocation, config::Config in_force,
                std::chrono::milliseconds look_every, const std::function<bool()>& ended);

}  // namespace duetime
