// SPDX-License-Identifier: Apache-2.0
//
// What repeats: a rule as a user writes it, and the times that follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "server/calendar/cron.h"

namespace duetime::calendar {

// A rule as it is asked for and stored. All times are milliseconds since the epoch, UTC.
struct RecurrenceRule {
  // Either a cron expression (see cron.h), or empty,
  std::string cron;
  // or so many milliseconds from each time to the next, at least 1,000, or 0. An interval is time
  // that passes, whatever the clocks of the zone do.
  int64_t interval_ms = 0;
  // The IANA name of the zone of `cron`; empty means UTC. With an interval it has no effect.
  std::string time_zone;
  // No time lies before this. With an interval it is the first one.
  int64_t start_ms = 0;
  // No time lies at or after this.
  std::optional<int64_t> end_ms;
  // How many times there are, or 0 for no limit.
  uint64_t max_count = 0;
  // Each time is put off by up to so much.
  int64_t jitter_ms = 0;
};

// A rule that is checked and ready to be asked.
//
// It tells nominal times: what the rule says before jitter. It knows no clock and keeps no state:
// how many times were made is stored by the caller, who asks IsComplete.
//
// Guarantees: (1) the same rule gives the same times, for as long as the zone keeps its law (an
// update of the tz database can move those to come, never an interval's); (2) the times with
// jitter are in the order of the nominal ones, at most one in each nominal period, and none is at
// or after the end. Cost: about a microsecond per time. Thread safety: immutable.
class Recurrence {
 public:
  // Checks `rule`. `field` is the path of the rule in the request, or empty; the field to blame is
  // named below it (cron, interval, time_zone, start_time, end_time, jitter). INVALID_ARGUMENT
  // - INVALID_CRON, INVALID_TIME_ZONE as CronExpression::Parse and FindZone have it;
  // - INVALID_RECURRENCE if there is no cron expression and no interval, or both; if a time or the
  //   interval is out of range (the metadata has value, min and max); if the jitter is not smaller
  //   than the interval; or if there is no time between start and end at all.
  static absl::StatusOr<Recurrence> Compile(const RecurrenceRule& rule, absl::string_view field);

  // The first nominal time after `after_ms`; nothing if the rule is over by then. Does not count.
  std::optional<int64_t> NextAfter(int64_t after_ms) const;

  // True when `made` times are all that the rule asks for.
  bool IsComplete(uint64_t made) const { return rule_.max_count > 0 && made >= rule_.max_count; }

  // By how much to put off the nominal time `nominal_ms` (REQUIRES: NextAfter gave it): spread
  // evenly over 0 to jitter_ms, always the same for the same seed, rule and time. The range is
  // smaller where the next nominal time or the end is nearer than that: a cron expression has no
  // shortest distance to check beforehand.
  int64_t JitterOf(uint64_t seed, int64_t nominal_ms) const;

  // Up to `count` nominal times, the first at or after `from_ms`. Does not count what was made.
  std::vector<int64_t> Preview(int64_t from_ms, size_t count) const;

  const RecurrenceRule& rule() const { return rule_; }

 private:
  Recurrence(RecurrenceRule rule, std::optional<CronExpression> cron, absl::TimeZone zone);

  // NextAfter, as if there were no end.
  std::optional<int64_t> NextWithoutEnd(int64_t after_ms) const;

  RecurrenceRule rule_;
  std::optional<CronExpression> cron_;
  absl::TimeZone zone_;
};

}  // namespace duetime::calendar
