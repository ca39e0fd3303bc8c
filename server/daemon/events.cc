// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/events.h"

#include <chrono>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"

#include "server/config/knobs.h"
#include "server/config/load.h"
#include "server/runtime/logging.h"
#include "server/runtime/signals.h"

namespace duetime {
namespace {

void Reload(const Invocation& invocation, config::Config* in_force) {
  const config::Loaded loaded = config::Load(invocation.argc, invocation.argv);
  if (!loaded.run) {
    spdlog::error("SIGHUP: the configuration has faults, and nothing changes: {}", loaded.output);
    return;
  }
  in_force->log.level = loaded.config.log.level;
  runtime::SetLogLevel(in_force->log.level);
  const std::vector<std::string> others = config::Changed(*in_force, loaded.config);
  if (others.empty()) {
    spdlog::info("SIGHUP: log_level is {}", in_force->log.level);
  } else {
    spdlog::warn("SIGHUP: log_level is {}; changes of these knobs need a restart: {}",
                 in_force->log.level, absl::StrJoin(others, ", "));
  }
}

}  // namespace

int WaitForStop(const Invocation& invocation, config::Config in_force,
                std::chrono::milliseconds look_every, const std::function<bool()>& ended) {
  for (;;) {
    const int signal = runtime::WaitForSignal(look_every);
    if (signal == SIGHUP) {
      Reload(invocation, &in_force);
      continue;
    }
    if (signal != 0) return signal;
    if (ended()) return 0;
  }
}

}  // namespace duetime
