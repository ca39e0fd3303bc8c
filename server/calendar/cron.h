// SPDX-License-Identifier: Apache-2.0
//
// Cron expressions, such as "0 9 * * MON-FRI", and the times at which they occur.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"

#include "server/calendar/cron_fields.h"

namespace duetime::calendar {

// A cron expression: a set of civil times, and with a zone a set of moments. It has no clock.
//
// The language. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or
// JAN-DEC), day of week (0-7 or SUN-SAT, where 0 and 7 are Sunday). With six fields the first one
// is the second (0-59), otherwise the second is 0. Spaces or tabs separate fields. Letters may have
// either case.
//   *         every value                    a,b      a list of any of these
//   a-b       a range, not backwards; Sunday may end one (FRI-SUN)
//   */n a-b/n a/n   every n-th value of the field, of a range, or from a to the end of the field; n
//             is at most the field's largest value, because a larger n would never step. The days
//             of the week end with 7, a Sunday: 1/6 is MON,SUN
//   ?         in the day fields, alone: the same as *
//   L L-3 LW  as days of the month: the last one, the third before it, the last from MON to FRI
//   5L 5#3    as days of the week: the last Friday of the month, the third one
//   @hourly @daily (@midnight) @weekly @monthly @yearly (@annually)
// If both day fields are restricted (contain no `*` and are not `?`), a day must match either of
// them, otherwise both: "0 0 13 * 5" is every 13th and every Friday, "0 0 */2 * 5" each Friday with
// an odd date.
//
// Changes of local clocks, much as in cronie:
//   In a gap (clocks set forward), all occurrences in the gap happen once, at the first moment
//   after the gap: "30 2 * * *" occurs at 03:00 where 02:00 becomes 03:00. In an overlap (clocks
//   set back), fixed hours occur once, in the first pass. An hour pattern (a `*` or a step in the
//   hour field) occurs in both passes, because "every half hour" means elapsed time.
//
// Guarantees: (1) Next(t) > t; (2) no occurrence lies between t and Next(t); (3) every parsed
// expression has occurrences, at most 40 years apart.
//
// Cost: Next takes about a microsecond, and a few for a leap day on a given weekday. Thread safety:
// immutable.
class CronExpression {
 public:
  // Parses `text`. INVALID_ARGUMENT with reason INVALID_CRON and `field` (the path of the request
  // field) as in ParseCronFields, and for an expression that never matches, such as February 30.
  static absl::StatusOr<CronExpression> Parse(absl::string_view text,
                                              absl::string_view field = "cron");

  // Returns the first occurrence after `after_ms`, in milliseconds since the epoch, UTC; always a
  // whole second. Occurrences lie in the years 1970-9999 (UTC); nullopt if none is left.
  std::optional<int64_t> Next(int64_t after_ms, const absl::TimeZone& zone) const;

  // The number of occurrences after `after_ms`, up to and including `until_ms`. Cost: a few
  // microseconds per day, and O(occurrences) on a day on which local clocks change.
  uint64_t Count(int64_t after_ms, int64_t until_ms, const absl::TimeZone& zone) const;

  // The text that was parsed.
  const std::string& text() const { return text_; }

 private:
  CronExpression(absl::string_view text, const CronFields& fields) : text_(text), fields_(fields) {}

  // The first civil time at or after `from` that matches, in no year after `last_year`.
  std::optional<absl::CivilSecond> NextCivil(absl::CivilSecond from, int64_t last_year) const;
  // As NextCivil, for the day alone.
  std::optional<absl::CivilDay> NextDay(absl::CivilDay from, int64_t last_year) const;
  // The first matching time at or after `from` on the same day.
  std::optional<absl::CivilSecond> NextOnDay(absl::CivilSecond from) const;
  // The number of matching times on this day, from this time on. REQUIRES: the day matches.
  uint64_t CountOnDay(absl::CivilSecond from) const;
  // The matching days of a month; bit n is day n.
  uint64_t DaysOf(absl::CivilMonth month) const;
  // Returns the first occurrence at or after `second` within an overlap of the zone. If there is
  // none, sets `resume` to the civil time at which the search continues.
  std::optional<int64_t> NextInOverlap(int64_t second, absl::CivilSecond now,
                                       const absl::TimeZone::TimeInfo& info,
                                       absl::CivilSecond* resume) const;

  std::string text_;
  CronFields fields_;
};

}  // namespace duetime::calendar
