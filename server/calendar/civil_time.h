// SPDX-License-Identifier: Apache-2.0
//
// Civil time: a local date and time, such as 2026-12-24T18:00. With a zone it gives a moment.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

namespace duetime::calendar {

// A date and a time of day without a zone.
struct CivilTime {
  absl::CivilSecond second;
  // 0-999
  int millisecond = 0;
};

// How often a civil time occurs in a zone.
enum class Occurs : uint8_t {
  kOnce,
  kNever,  // in a gap: clocks are set forward over it
  kTwice,  // in an overlap: clocks are set back over it
};

// The moment of a civil time.
struct ResolvedTime {
  // Milliseconds since the epoch, UTC; negative before 1970.
  int64_t utc_ms = 0;
  // How often the civil time occurs. Unless it is kOnce, a rule chose the moment, and the answer
  // should say so.
  Occurs occurs = Occurs::kOnce;
};

// Parses "YYYY-MM-DDTHH:MM", optionally followed by ":SS" or ":SS.mmm". All digits are required,
// and nothing else is allowed: no space, no `Z`, no offset. Years 0001-9999; no second 60. Any
// other text, and a date that does not exist, is INVALID_ARGUMENT with reason INVALID_CIVIL_TIME
// and `field` (the path of the request field).
absl::StatusOr<CivilTime> ParseCivilTime(absl::string_view text, absl::string_view field);

// Returns the moment of `civil` in `zone`. In a gap it uses the offset before the gap: where 02:00
// becomes 03:00, 02:30 is 03:30. So the moment keeps its distance from midnight and is never early.
// In an overlap it is the first of the two.
ResolvedTime Resolve(const CivilTime& civil, const absl::TimeZone& zone);

// Formats the local time of `zone` at `utc_ms` for ParseCivilTime: always with seconds, and with
// milliseconds unless they are zero. In the second pass of an overlap, Resolve does not lead back
// to `utc_ms`. A year beyond 9999 has as many digits as it needs.
std::string FormatCivilTime(int64_t utc_ms, const absl::TimeZone& zone);

}  // namespace duetime::calendar
