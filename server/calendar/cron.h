// SPDX-License-Identifier: Apache-2.0
//
// Cron expressions: when does "0 9 * * MON-FRI" come next in Berlin?
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

// A cron expression: a set of civil times, and through a zone of moments. It knows no clock.
//
// The language. Five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or
// JAN-DEC), day of week (0-7 or SUN-SAT, 0 and 7 are Sunday); with six fields the first one is the
// second (0-59), which else is 0. Between fields stand spaces or tabs; letters of either case.
//   *         every value                    a,b      a list of any of these
//   a-b       a range, not backwards; Sunday may end one (FRI-SUN)
//   */n a-b/n a/n   every n-th value from the beginning, of a range, from a to the end; n is not
//             larger than the field's largest value, since it would then never be a step
//   ?         in the fields of days, alone: the same as *
//   L L-3 LW  as days of the month: the last one, the third before it, the last from MON to FRI
//   5L 5#3    as days of the week: the last Friday of the month, the third one
//   @hourly @daily (@midnight) @weekly @monthly @yearly (@annually)
// If both fields of days are restricted (hold no `*` and are not `?`) a day has to fit one of them,
// else both: "0 0 13 * 5" is every 13th and every Friday, "0 0 */2 * 5" each Friday that is odd.
//
// Clocks that change, much as cronie has it:
//   In a gap (clocks put forward) what would have come in it comes at the first moment after the
//   gap, all of it as one occurrence: "30 2 * * *" comes at 03:00 where 02:00 becomes 03:00.
//   In an overlap (clocks put back) what has fixed hours comes once, in the first pass; what has
//   its hours by a pattern (the hour field holds a `*` or a step) comes in both passes, because
//   somebody who writes "every half hour" means the time that passes.
//
// Guarantees: (1) Next(t) > t; (2) Next misses nothing: no occurrence lies between t and Next(t);
// (3) every expression that is parsed has occurrences, at most 40 years apart.
// Cost: Next takes about a microsecond, a few for a leap day on a given weekday. Thread safety:
// immutable.
class CronExpression {
 public:
  // Reads `text`. INVALID_ARGUMENT with reason INVALID_CRON and `field` (the path of the request
  // field) as ParseCronFields has it, and for what can never come, such as February 30.
  static absl::StatusOr<CronExpression> Parse(absl::string_view text,
                                              absl::string_view field = "cron");

  // The first occurrence after `after_ms`, in milliseconds since the epoch, UTC, always a whole
  // second. Occurrences lie in the years 1970-9999 (UTC): nothing if there is none left in them.
  std::optional<int64_t> Next(int64_t after_ms, const absl::TimeZone& zone) const;

  // The text that was parsed.
  const std::string& text() const { return text_; }

 private:
  CronExpression(absl::string_view text, const CronFields& fields) : text_(text), fields_(fields) {}

  // The first civil time at or after `from` that fits the fields, in no year after `last_year`.
  std::optional<absl::CivilSecond> NextCivil(absl::CivilSecond from, int64_t last_year) const;
  // The same for the day alone.
  std::optional<absl::CivilDay> NextDay(absl::CivilDay from, int64_t last_year) const;
  // The time of day at or after that of `from`, on its day.
  std::optional<absl::CivilSecond> NextOnDay(absl::CivilSecond from) const;
  // The days of a month that fit; bit n is day n.
  uint64_t DaysOf(absl::CivilMonth month) const;
  // The first occurrence at or after `second` while the civil time of `second` is one that the
  // zone has twice; sets `resume` to the civil time from which to look on if there is none.
  std::optional<int64_t> NextInOverlap(int64_t second, absl::CivilSecond now,
                                       const absl::TimeZone::TimeInfo& info,
                                       absl::CivilSecond* resume) const;

  std::string text_;
  CronFields fields_;
};

}  // namespace duetime::calendar
