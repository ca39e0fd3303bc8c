// SPDX-License-Identifier: Apache-2.0
//
// SlowLog: log lines about calls that took long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "server/rpc/log_throttle.h"

namespace duetime::rpc {

// Thread safety: confined. LogThrottle limits the lines of each method.
class SlowLog {
 public:
  struct Call {
    // A text that lives as long as the program.
    const char* method = nullptr;
    uint64_t micros = 0;
    absl::StatusCode code = absl::StatusCode::kOk;
    // Empty: access control is off.
    std::string principal = {};
    std::string peer = {};
  };

  // Calls of `slow_ms` and longer are slow. 0: none is.
  explicit SlowLog(uint64_t slow_ms) : slow_ms_(slow_ms) {}

  bool IsSlow(uint64_t micros) const { return slow_ms_ != 0 && micros / kMicrosPerMs >= slow_ms_; }
  // The line about a slow call; nothing if it must be left out.
  std::optional<std::string> Line(const Call& call, uint64_t now_ms);

 private:
  static constexpr uint64_t kMicrosPerMs = 1'000;

  const uint64_t slow_ms_;
  LogThrottle throttle_;
};

}  // namespace duetime::rpc
