// SPDX-License-Identifier: Apache-2.0
//
// The daemon's log.
#pragma once

#include <cstdint>
#include <string>

#include "server/runtime/runtime_options.h"

namespace duetime::runtime {

// Sets up the default logger: lines on stderr, in UTC. Call once, before threads.
void SetUpLogging(const LogOptions& options);

// One log line as JSON, without a newline: {"time","level","thread","message"}. Replaces bytes that
// are not UTF-8.
std::string JsonLogLine(const std::string& time, const std::string& level, uint64_t thread,
                        const std::string& message);

}  // namespace duetime::runtime
