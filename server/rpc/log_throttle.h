// SPDX-License-Identifier: Apache-2.0
//
// LogThrottle: a limit for log lines that peers can cause.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace duetime::rpc {

// Lets the first few lines of each kind pass in each minute, and counts the others. A kind is a
// place in a source file, so there are few. Thread safety: confined.
class LogThrottle {
 public:
  static constexpr uint64_t kWindowMs = 60'000;
  static constexpr uint64_t kLinesPerWindow = 5;

  // Nothing if the line must be dropped. Otherwise the lines of this kind that were dropped since
  // the last one that passed.
  std::optional<uint64_t> Pass(const char* file, int line, uint64_t now_ms) {
    Kind& kind = kinds_[{file, line}];
    if (now_ms >= kind.window_end_ms) {
      kind.window_end_ms = now_ms + kWindowMs;
      kind.passed = 0;
    }
    if (kind.passed == kLinesPerWindow) {
      ++kind.dropped;
      return std::nullopt;
    }
    ++kind.passed;
    return std::exchange(kind.dropped, 0);
  }

 private:
  struct Kind {
    uint64_t window_end_ms = 0;
    uint64_t passed = 0;
    uint64_t dropped = 0;
  };

  absl::flat_hash_map<std::pair<const char*, int>, Kind> kinds_;
};

}  // namespace duetime::rpc
