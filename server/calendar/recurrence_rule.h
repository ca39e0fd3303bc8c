// SPDX-License-Identifier: Apache-2.0
//
// Recurrence rules, and the times that follow from them.
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

// A rule as requested and stored. All times are milliseconds since the epoch, UTC.
struct RecurrenceRule {
  // A cron expression (see cron.h). Empty: the rule has an interval.
  std::string cron;
  // The milliseconds between times, at least 1,000. 0: the rule has a cron expression. An interval
  // is elapsed time: changes of local clocks have no effect.
  int64_t interval_ms = 0;
  // The IANA name of the zone of `cron`; empty means UTC. With an interval it has no effect.
  std::string time_zone;
  // The earliest time. With an interval, it is the first time.
  int64_t start_ms = 0;
  // All times are before this.
  std::optional<int64_t> end_ms;
  // The number of times; 0: no limit.
  uint64_t max_count = 0;
  // The longest delay of each time.
  int64_t jitter_ms = 0;
};

// A checked rule.
//
// It computes nominal times, that is, times before jitter. It has no clock and no state: the caller
// stores the number of times made and calls IsComplete.
//
// Guarantees: (1) the same rule gives the same times while the zone keeps its rules (an update of
// the tz database can move future times of a cron expression, never of an interval); (2) times with
// jitter are in the order of the nominal times, at most one per nominal period, and before the end.
// Cost: about a microsecond per time. Thread safety: immutable.
class Recurrence {
 public:
  // Checks `rule`. `field` is the path of the rule in the request, or empty. Errors name the
  // invalid field below it (cron, interval, time_zone, start_time, end_time, jitter).
  // INVALID_ARGUMENT with:
  // - INVALID_CRON, INVALID_TIME_ZONE, as CronExpression::Parse and FindZone;
  // - INVALID_RECURRENCE if the rule has neither a cron expression nor an interval, or both; if a
  //   time or the interval is out of range (the metadata has value, min and max); if the jitter is
  //   not smaller than the interval; or if there is no time between start and end.
  static absl::StatusOr<Recurrence> Compile(const RecurrenceRule& rule, absl::string_view field);

  // The first nominal time after `after_ms`; nullopt if the rule has ended. Ignores max_count.
  std::optional<int64_t> NextAfter(int64_t after_ms) const;

  // The first nominal time of a recurrence that begins at `now_ms`; nullopt if there is none. It is
  // not before `now_ms`, with one exception: the start of an interval may have passed, until the
  // second time has come. So a start of "now" counts, although the clock goes on until it is read.
  std::optional<int64_t> First(int64_t now_ms) const;

  // The number of nominal times after `after_ms`, up to and including `until_ms`; nullopt if it is
  // above `most` and the rule has a cron expression. Ignores max_count. Cost: O(1) for an interval,
  // else O(number).
  std::optional<uint64_t> CountBetween(int64_t after_ms, int64_t until_ms, uint64_t most) const;

  // The number of nominal times after `after_ms`, up to and including `until_ms`. Ignores
  // max_count. Cost: O(1) for an interval, else as CronExpression::Count.
  uint64_t Count(int64_t after_ms, int64_t until_ms) const;

  // The last nominal time after `after_ms`, up to and including `until_ms`; nullopt if there is
  // none. Ignores max_count. Cost: about 50 times that of NextAfter.
  std::optional<int64_t> LastBetween(int64_t after_ms, int64_t until_ms) const;

  // True if `made` times complete the rule.
  bool IsComplete(uint64_t made) const { return rule_.max_count > 0 && made >= rule_.max_count; }

  // The delay of the nominal time `nominal_ms`: spread evenly over 0 to jitter_ms, and always the
  // same for the same seed, rule and time. The range is smaller if the next nominal time or the end
  // is nearer, because a cron expression has no shortest distance to check in advance. REQUIRES:
  // NextAfter returned `nominal_ms`.
  int64_t JitterOf(uint64_t seed, int64_t nominal_ms) const;

  // Up to `count` nominal times at or after `from_ms`. Ignores the number of times made.
  std::vector<int64_t> Preview(int64_t from_ms, size_t count) const;

  const RecurrenceRule& rule() const { return rule_; }

 private:
  Recurrence(RecurrenceRule rule, std::optional<CronExpression> cron, absl::TimeZone zone);

  // As NextAfter, but ignores the end.
  std::optional<int64_t> NextWithoutEnd(int64_t after_ms) const;

  RecurrenceRule rule_;
  std::optional<CronExpression> cron_;
  absl::TimeZone zone_;
};

}  // namespace duetime::calendar
