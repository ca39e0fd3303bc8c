// SPDX-License-Identifier: Apache-2.0
//
// Where a subscriber writes its log.
#pragma once

#include <functional>
#include <string>

#include "absl/base/log_severity.h"

namespace duetime::client {

// Gets a line without line break. Several threads call it. With a newer abseil than Debian's, for
// example:
//
//   [](absl::LogSeverity severity, const std::string& line) { LOG(LEVEL(severity)) << line; }
using LogFunction = std::function<void(absl::LogSeverity severity, const std::string& line)>;

}  // namespace duetime::client
