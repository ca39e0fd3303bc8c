// SPDX-License-Identifier: Apache-2.0
//
// ClockRange: how far a member's clock is ahead of the log's, or of another member's.
#pragma once

#include <algorithm>
#include <cstdint>

namespace duetime::cell {

// Bounds of how far one clock is ahead of another: least_ms <= true difference <= most_ms.
// Negative: it is behind. Time that passes between an entry and a reading of the clock makes the
// bounds wider, and never wrong.
struct ClockRange {
  int64_t least_ms = 0;
  int64_t most_ms = 0;
};

// By how much a reading of a clock is ahead of an entry's time.
inline int64_t AheadMs(uint64_t clock_ms, uint64_t entry_ms) {
  return static_cast<int64_t>(clock_ms - entry_ms);
}

// How far a clock is ahead of another one, if both ranges are those against the log's clock.
inline ClockRange Between(const ClockRange& clock, const ClockRange& other) {
  return {.least_ms = clock.least_ms - other.most_ms, .most_ms = clock.most_ms - other.least_ms};
}

// The difference that is nearest to zero: the clocks are at least so far apart.
inline int64_t AtLeast(const ClockRange& range) {
  return std::max(range.least_ms, std::min<int64_t>(range.most_ms, 0));
}

}  // namespace duetime::cell
