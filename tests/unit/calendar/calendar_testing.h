// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the tests of this room: zones and moments from text.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace duetime::calendar {

inline absl::TimeZone Zone(const std::string& name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(name, &zone)) << name;
  return zone;
}

// Milliseconds since the epoch of an RFC 3339 text, which includes its offset.
inline int64_t Ms(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << text << ": " << error;
  return absl::ToUnixMillis(time);
}

// The RFC 3339 text of a moment, with the zone's offset at that moment.
inline std::string Text(int64_t ms, const absl::TimeZone& zone) {
  return absl::FormatTime("%E4Y-%m-%dT%H:%M:%E*S%Ez", absl::FromUnixMillis(ms), zone);
}

}  // namespace duetime::calendar
