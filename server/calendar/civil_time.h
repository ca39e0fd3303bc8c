// SPDX-License-Identifier: Apache-2.0
//
// Civil time: what a clock on the wall shows, such as 2026-12-24T18:00. A moment only together with
// a zone.
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

// How often a civil time happens in a zone.
enum class Occurs : uint8_t {
  kOnce,
  kNever,  // in a gap: the clocks were put forward over it
  kTwice,  // in an overlap: the clocks were put back over it
};

// A civil time as a moment.
struct ResolvedTime {
  // Milliseconds since the epoch, UTC; negative before 1970.
  int64_t utc_ms = 0;
  // How often the civil time that was asked for happens: unless once, a rule chose the moment, and
  // the answer should say so.
  Occurs occurs = Occurs::kOnce;
};

// Reads "YYYY-MM-DDTHH:MM", with ":SS" or ":SS.mmm" behind it if wanted. All digits have to be
// there and nothing else may be: no space, no `Z`, no offset. Years 0001-9999; no second 60.
// INVALID_ARGUMENT with reason INVALID_CIVIL_TIME and `field` (the path of the request field) if it
// is anything else or a date that no calendar has.
absl::StatusOr<CivilTime> ParseCivilTime(absl::string_view text, absl::string_view field);

// The moment of `civil` in `zone`. In a gap the offset before the gap is used: where 02:00 becomes
// 03:00, 02:30 is 03:30, so it is as long after midnight as it would have been and never early.
// In an overlap it is the first of both.
ResolvedTime Resolve(const CivilTime& civil, const absl::TimeZone& zone);

// What the clocks of `zone` show at `utc_ms`, in the form that ParseCivilTime reads: with seconds
// always, with milliseconds unless they are zero. In the second pass of an overlap Resolve does not
// lead back to `utc_ms`. Years beyond 9999 have as many digits as they need.
std::string FormatCivilTime(int64_t utc_ms, const absl::TimeZone& zone);

}  // namespace duetime::calendar
