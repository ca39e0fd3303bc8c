// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/cron.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/calendar/invalid.h"

namespace duetime::calendar {
namespace {

// 9999-12-31T23:59:59Z, in seconds.
constexpr int64_t kLastSecond = 253'402'300'799;
// East of UTC, the last seconds are in the next civil year.
constexpr int64_t kLastCivilYear = 10'000;
// The calendar, including weekdays, repeats after this many years.
constexpr int64_t kCalendarCycleYears = 400;
constexpr int kDaysPerWeek = 7;
constexpr int64_t kDaySeconds = 86'400;

// The lowest value in `bits` that is at least `from`, or -1. REQUIRES: 0 <= from < 64.
int NextBit(uint64_t bits, int from) {
  const uint64_t left = bits & (~uint64_t{0} << from);
  return left == 0 ? -1 : std::countr_zero(left);
}

// The weekday of absl counts from Monday, that of cron from Sunday.
int CronWeekday(absl::CivilDay day) {
  return (static_cast<int>(absl::GetWeekday(day)) + 1) % kDaysPerWeek;
}

absl::CivilSecond CivilAt(int64_t second, const absl::TimeZone& zone) {
  return zone.At(absl::FromUnixSeconds(second)).cs;
}

// `weekdays` (bit 0 is Sunday) as days of a week that begins with `first_weekday`: bit 0 is the
// week's first day.
uint64_t WeekFrom(uint64_t weekdays, int first_weekday) {
  const uint64_t twice = weekdays | (weekdays << kDaysPerWeek);
  return (twice >> first_weekday) & 0x7f;
}

}  // namespace

absl::StatusOr<CronExpression> CronExpression::Parse(absl::string_view text,
                                                     absl::string_view field) {
  const absl::StatusOr<CronFields> fields = ParseCronFields(text, field);
  if (!fields.ok()) return fields.status();
  CronExpression expression(text, *fields);
  constexpr int64_t kAnyYear = 2000;
  if (!expression.NextDay(absl::CivilDay(kAnyYear, 1, 1), kAnyYear + kCalendarCycleYears)) {
    const std::string shown = absl::CHexEscape(text);
    return Invalid("INVALID_CRON", field,
                   absl::StrCat("cron expression \"", shown,
                                "\" never comes: none of its months has a day that fits"),
                   {{"value", shown}});
  }
  return expression;
}

uint64_t CronExpression::DaysOf(absl::CivilMonth month) const {
  const absl::CivilDay first(month);
  const int length = static_cast<int>(absl::CivilDay(month + 1) - first);
  const int first_weekday = CronWeekday(first);

  uint64_t by_date = fields_.days_of_month;
  for (int before = NextBit(fields_.days_before_last, 0); before >= 0 && before < length;
       before = NextBit(fields_.days_before_last, before + 1)) {
    by_date |= uint64_t{1} << (length - before);
  }
  if (fields_.last_working_day) {
    const int last_weekday = (first_weekday + length - 1) % kDaysPerWeek;
    const int back = last_weekday == 6 ? 1 : last_weekday == 0 ? 2 : 0;
    by_date |= uint64_t{1} << (length - back);
  }

  const uint64_t week = WeekFrom(fields_.weekdays, first_weekday);
  uint64_t by_weekday = 0;
  for (size_t i = 0; i < fields_.nth_weekdays.size(); ++i) {
    const uint64_t nth_week = week | WeekFrom(fields_.nth_weekdays[i], first_weekday);
    by_weekday |= nth_week << (1 + i * kDaysPerWeek);
  }
  const int last_week = length - kDaysPerWeek + 1;
  by_weekday |= WeekFrom(fields_.last_weekdays, (first_weekday + last_week - 1) % kDaysPerWeek)
                << last_week;

  const uint64_t all = (uint64_t{1} << (length + 1)) - 2;
  const bool both = fields_.any_day_of_month || fields_.any_weekday;
  return all & (both ? by_date & by_weekday : by_date | by_weekday);
}

std::optional<absl::CivilDay> CronExpression::NextDay(absl::CivilDay from,
                                                      int64_t last_year) const {
  int first_day = from.day();
  for (absl::CivilMonth month(from); month.year() <= last_year; ++month, first_day = 1) {
    if ((fields_.months >> month.month() & 1) == 0) continue;
    const int day = NextBit(DaysOf(month), first_day);
    if (day >= 0) return absl::CivilDay(month.year(), month.month(), day);
  }
  return std::nullopt;
}

std::optional<absl::CivilSecond> CronExpression::NextOnDay(absl::CivilSecond from) const {
  // When a field advances, the lower fields start again.
  int hour = NextBit(fields_.hours, from.hour());
  int minute = NextBit(fields_.minutes, 0);
  int second = NextBit(fields_.seconds, 0);
  if (hour == from.hour()) {
    const int late_second = NextBit(fields_.seconds, from.second());
    const int late_minute =
        NextBit(fields_.minutes, late_second >= 0 ? from.minute() : from.minute() + 1);
    if (late_minute < 0) {
      hour = NextBit(fields_.hours, hour + 1);
    } else {
      minute = late_minute;
      if (minute == from.minute()) second = late_second;
    }
  }
  if (hour < 0) return std::nullopt;
  return absl::CivilSecond(from.year(), from.month(), from.day(), hour, minute, second);
}

std::optional<absl::CivilSecond> CronExpression::NextCivil(absl::CivilSecond from,
                                                           int64_t last_year) const {
  std::optional<absl::CivilDay> day = NextDay(absl::CivilDay(from), last_year);
  if (day == absl::CivilDay(from)) {
    const auto today = NextOnDay(from);
    if (today.has_value()) return today;
    day = NextDay(*day + 1, last_year);
  }
  if (!day.has_value()) return std::nullopt;
  return NextOnDay(absl::CivilSecond(*day));
}

uint64_t CronExpression::CountOnDay(absl::CivilSecond from) const {
  const auto count = [](uint64_t bits) { return static_cast<uint64_t>(std::popcount(bits)); };
  const auto from_bit = [](uint64_t bits, int first) { return bits & (~uint64_t{0} << first); };
  const auto has = [](uint64_t bits, int bit) { return (bits >> bit & 1) != 0; };
  const uint64_t per_minute = count(fields_.seconds);
  const uint64_t per_hour = count(fields_.minutes) * per_minute;
  uint64_t sum = count(from_bit(fields_.hours, from.hour() + 1)) * per_hour;
  if (!has(fields_.hours, from.hour())) return sum;
  sum += count(from_bit(fields_.minutes, from.minute() + 1)) * per_minute;
  if (!has(fields_.minutes, from.minute())) return sum;
  return sum + count(from_bit(fields_.seconds, from.second()));
}

uint64_t CronExpression::Count(int64_t after_ms, int64_t until_ms,
                               const absl::TimeZone& zone) const {
  uint64_t sum = 0;
  std::optional<int64_t> next = Next(after_ms, zone);
  while (next.has_value() && *next <= until_ms) {
    const absl::CivilSecond at = CivilAt(*next / 1'000, zone);
    const absl::CivilSecond end(absl::CivilDay(at) + 1);
    // Until local clocks change next, the offset from UTC stays as it is at `next`.
    absl::TimeZone::CivilTransition change;
    const absl::Time day_before = absl::FromUnixSeconds(*next / 1'000 - kDaySeconds);
    const bool changes = zone.NextTransition(day_before, &change) && change.from < end;
    if (changes) {
      ++sum;
      next = Next(*next, zone);
      continue;
    }
    const absl::CivilSecond until = at + (until_ms - *next) / 1'000 + 1;
    sum += CountOnDay(at);
    if (until < end) return sum - CountOnDay(until);
    next = Next(*next + (end - at) * 1'000 - 1, zone);
  }
  return sum;
}

std::optional<int64_t> CronExpression::NextInOverlap(int64_t second, absl::CivilSecond now,
                                                     const absl::TimeZone::TimeInfo& info,
                                                     absl::CivilSecond* resume) const {
  // The clocks show [begin, end) until `back` and then again.
  const int64_t back = absl::ToUnixSeconds(info.trans);
  const absl::CivilSecond end = now + (back - absl::ToUnixSeconds(info.pre));
  const absl::CivilSecond begin = end - absl::ToInt64Seconds(info.post - info.pre);
  *resume = end;
  const auto next_in_pass = [&](absl::CivilSecond civil, int64_t at) -> std::optional<int64_t> {
    const auto match = NextCivil(civil, kLastCivilYear);
    if (!match.has_value() || *match >= end) return std::nullopt;
    return at + (*match - civil);
  };
  if (second < back) {
    const auto found = next_in_pass(now, second);
    if (found.has_value() || !fields_.hours_by_pattern) return found;
    return next_in_pass(begin, back);
  }
  return fields_.hours_by_pattern ? next_in_pass(now, second) : std::nullopt;
}

std::optional<int64_t> CronExpression::Next(int64_t after_ms, const absl::TimeZone& zone) const {
  const int64_t second = after_ms < 0 ? 0 : after_ms / 1'000 + 1;
  if (second > kLastSecond) return std::nullopt;
  absl::CivilSecond from = CivilAt(second, zone);

  // If the clocks have just been set forward, an occurrence within the skipped hour happens now.
  const absl::CivilSecond skipped = CivilAt(second - 1, zone) + 1;
  if (skipped < from) {
    const auto match = NextCivil(skipped, kLastCivilYear);
    if (match.has_value() && *match < from) return second * 1'000;
  }
  // Civil time runs backwards only in an overlap. Only there can `second` follow an occurrence with
  // a later civil time.
  const absl::TimeZone::TimeInfo here = zone.At(from);
  if (here.kind == absl::TimeZone::TimeInfo::REPEATED) {
    const absl::CivilSecond now = from;
    const auto found = NextInOverlap(second, now, here, &from);
    if (found.has_value()) return *found * 1'000;
  }

  const auto match = NextCivil(from, kLastCivilYear);
  if (!match.has_value()) return std::nullopt;
  const absl::TimeZone::TimeInfo info = zone.At(*match);
  const absl::Time time = info.kind == absl::TimeZone::TimeInfo::SKIPPED ? info.trans : info.pre;
  const int64_t found = absl::ToUnixSeconds(time);
  if (found > kLastSecond) return std::nullopt;
  return found * 1'000;
}

}  // namespace duetime::calendar
