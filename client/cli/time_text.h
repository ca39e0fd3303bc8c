// SPDX-License-Identifier: Apache-2.0
//
// Times as people write them. Pure functions: they read no clock and no environment.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace duetime::cli {

// The zone of times without an offset, and of the output.
struct LocalZone {
  // NOLINTNEXTLINE(google-explicit-constructor): a zone is known, except that of this machine.
  LocalZone(const absl::TimeZone& known = absl::UTCTimeZone(), std::string unknown = "")
      : zone(known), unknown_tz(std::move(unknown)) {}

  absl::TimeZone zone;
  // The value of TZ if it names no zone. The output is in UTC then, and shows it; but a time
  // without an offset would mean another moment than its author thinks.
  std::string unknown_tz;
};

// The zone of this machine, whose environment has this value of TZ; "": none.
LocalZone LocalZoneOf(const std::string& tz);

// Reads a length of time: "90s", "1h30m", "2d", "500ms", "1.5h". It consists of numbers with the
// units w, d, h, m, s, ms, longest first, each at most once. A day is 24 hours. Numbers have up to
// nine decimals, cut at a nanosecond. Zero is "0s". INVALID_ARGUMENT with a text for people if the
// text has another form, a sign or no unit, or means more than 10,000 years.
absl::StatusOr<absl::Duration> ParseDurationText(absl::string_view text);

// Reads a moment as every option takes it: "now"; a distance from `now`, "+30m" or "-1h"; a time of
// a near day, "today 9am", "tomorrow 18:30:15" or "yesterday 0:00"; or what ParseTimeText reads.
// The days are those of `zone`, or of `local` if `zone` is absent. INVALID_ARGUMENT as there, and
// if `zone` is set beside a distance from now.
absl::StatusOr<absl::Time> ParseMomentText(absl::string_view text,
                                           const std::optional<absl::TimeZone>& zone,
                                           const LocalZone& local, absl::Time now);

// Reads a time of a date: "2026-12-24 18:00", optionally with seconds and up to nine decimals of
// them, or "6pm" and "6:30 am". A `T` may replace the space. `Z` or an offset such as `+08:00` may
// follow, as in RFC 3339. Without them, the text is a civil time of `zone`, or of `local` if `zone`
// is absent. Years 0001-9999.
//
// INVALID_ARGUMENT with a text for people if the text has another form, names an offset although
// `zone` is set, or needs `local` and its TZ names no zone. Also if the civil time does not exist
// in the zone or occurs twice, because clocks are set forward or back. The error then names both
// possible moments, in a form that this function reads.
absl::StatusOr<absl::Time> ParseTimeText(absl::string_view text,
                                         const std::optional<absl::TimeZone>& zone,
                                         const LocalZone& local);

// What to do about a time that is refused because IsLongPast.
inline constexpr char kAllowPastAdvice[] =
    "more than a day ago; if that is meant, add --allow-past";
// True for a time more than a day before `now`: as a rule a mistake, because its message is due at
// once.
bool IsLongPast(absl::Time time, absl::Time now);

// The zone with this IANA name, or UTC. INVALID_ARGUMENT if the machine does not know it.
absl::StatusOr<absl::TimeZone> ParseTimeZone(const std::string& name);

// Formats as RFC 3339, cut to milliseconds: 2026-12-24T18:00:00.000+08:00.
std::string FormatTimeText(absl::Time time, const absl::TimeZone& zone);

// Formats in the form of ParseDurationText, cut to milliseconds: "1h30m", "0s". The duration may be
// negative: "-5ms".
std::string FormatDurationText(absl::Duration duration);

// As FormatDurationText, but in days and hours from two days on. For ages and distances, whose
// seconds do not matter to a reader. Settings keep every digit.
std::string FormatAgeText(absl::Duration duration);

}  // namespace duetime::cli
