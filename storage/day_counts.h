// SPDX-License-Identifier: Apache-2.0
//
// DayCounts: the counters of one topic and day, by minute, in one value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "storage/time_units.h"
#include "storage/types.h"

namespace duetime::storage {

inline constexpr size_t kMinutesPerDay = kDayMs / kMinuteMs;

// The start of the day (UTC) that holds `time_ms`.
constexpr uint64_t DayOf(uint64_t time_ms) { return time_ms - time_ms % kDayMs; }

// Encodes minutes of a day that arrive in ascending order. Omits minutes of zero.
//
// One value for a day keeps an accept cheap when due times are far apart: a thousand messages that
// are due in a year change 365 values instead of 2,000. FORMAT.md documents the bytes.
class DayEncoder {
 public:
  // REQUIRES: `minute` < kMinutesPerDay is greater than in the calls before.
  void Add(size_t minute, const CountDelta& delta);
  // The bytes; empty if every minute is zero.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  size_t next_ = 0;
};

// Decodes the bytes of a DayEncoder, minute by minute.
class DayDecoder {
 public:
  // REQUIRES: `bytes` outlive the decoder.
  explicit DayDecoder(absl::string_view bytes) : rest_(bytes) {}

  // Decodes the next minute. Returns false at the end and when the bytes are not valid.
  bool Next();
  // True if no encoder writes these bytes. Ask when Next() has returned false.
  bool invalid() const { return invalid_; }

  size_t minute() const { return minute_; }
  const CountDelta& delta() const { return delta_; }

 private:
  absl::string_view rest_;
  size_t next_ = 0;
  size_t minute_ = 0;
  CountDelta delta_;
  bool invalid_ = false;
};

// Adds up the changes of a day. Memory: 23 KB. Thread safety: confined.
class DayCounts {
 public:
  void Add(size_t minute, const CountDelta& delta);
  // Adds encoded changes. Returns false if the bytes are not valid.
  bool Add(absl::string_view bytes);
  std::string Encode() const;

 private:
  std::array<CountDelta, kMinutesPerDay> minutes_{};
};

}  // namespace duetime::storage
