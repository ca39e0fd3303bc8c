// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/cron.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "tests/unit/calendar/calendar_testing.h"

namespace duetime::calendar {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

CronExpression Cron(const std::string& text) {
  auto expression = CronExpression::Parse(text);
  EXPECT_TRUE(expression.ok()) << expression.status();
  if (!expression.ok()) expression = CronExpression::Parse("0 0 1 1 *");
  return *std::move(expression);
}

// The first `count` occurrences after `after`, each with the zone's offset at that moment.
std::vector<std::string> After(const std::string& cron, const std::string& zone,
                               const std::string& after, size_t count) {
  const CronExpression expression = Cron(cron);
  std::vector<std::string> texts;
  std::optional<int64_t> time = Ms(after);
  while (texts.size() < count) {
    time = expression.Next(*time, Zone(zone));
    if (!time.has_value()) break;
    texts.push_back(Text(*time, Zone(zone)));
  }
  return texts;
}

TEST(CronNextTest, IsStrictlyAfter) {
  const CronExpression cron = Cron("30 9 * * *");
  const int64_t at = Ms("2026-05-04T09:30:00Z");
  const int64_t day = Ms("2026-05-05T09:30:00Z") - at;
  EXPECT_EQ(cron.Next(at - 1, absl::UTCTimeZone()), at);
  EXPECT_EQ(cron.Next(at - 1'000, absl::UTCTimeZone()), at);
  EXPECT_EQ(cron.Next(at, absl::UTCTimeZone()), at + day);
  EXPECT_EQ(cron.Next(at + 1, absl::UTCTimeZone()), at + day);
}

TEST(CronNextTest, SecondsMinutesHoursCarry) {
  EXPECT_THAT(After("58,10 59 23 * * *", "UTC", "2026-12-31T23:59:10Z", 3),
              ElementsAre("2026-12-31T23:59:58+00:00", "2027-01-01T23:59:10+00:00",
                          "2027-01-01T23:59:58+00:00"));
  EXPECT_THAT(After("5 10-11 3,4 * * *", "UTC", "2026-05-04T03:11:05Z", 3),
              ElementsAre("2026-05-04T04:10:05+00:00", "2026-05-04T04:11:05+00:00",
                          "2026-05-05T03:10:05+00:00"));
}

TEST(CronNextTest, YearsEnd) {
  EXPECT_THAT(After("@yearly", "Asia/Kolkata", "2026-05-04T00:00:00Z", 2),
              ElementsAre("2027-01-01T00:00:00+05:30", "2028-01-01T00:00:00+05:30"));
  EXPECT_THAT(After("* * 31 12 *", "Asia/Kolkata", "2026-12-31T23:58:30+05:30", 2),
              ElementsAre("2026-12-31T23:59:00+05:30", "2027-12-31T00:00:00+05:30"));
}

TEST(CronNextTest, LeapDays) {
  EXPECT_THAT(After("0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", 2),
              ElementsAre("2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"));
  // February 2100 has no 29th.
  EXPECT_THAT(After("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1),
              ElementsAre("2104-02-29T00:00:00+00:00"));
  // Only a leap year's February has a fifth Monday.
  EXPECT_THAT(After("0 0 ? 2 MON#5", "UTC", "2026-01-01T00:00:00Z", 2),
              ElementsAre("2044-02-29T00:00:00+00:00", "2072-02-29T00:00:00+00:00"));
}

TEST(CronNextTest, LastDays) {
  EXPECT_THAT(After("0 0 L * *", "UTC", "2028-01-15T00:00:00Z", 3),
              ElementsAre("2028-01-31T00:00:00+00:00", "2028-02-29T00:00:00+00:00",
                          "2028-03-31T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 L-3 * *", "UTC", "2026-02-01T00:00:00Z", 2),
              ElementsAre("2026-02-25T00:00:00+00:00", "2026-03-28T00:00:00+00:00"));
  // These months end on a Friday and a Monday, and on a Saturday, a Saturday and a Sunday.
  EXPECT_THAT(After("0 0 LW 7-8 *", "UTC", "2026-01-01T00:00:00Z", 2),
              ElementsAre("2026-07-31T00:00:00+00:00", "2026-08-31T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 LW 1,2,5 *", "UTC", "2026-01-01T00:00:00Z", 3),
              ElementsAre("2026-01-30T00:00:00+00:00", "2026-02-27T00:00:00+00:00",
                          "2026-05-29T00:00:00+00:00"));
}

TEST(CronNextTest, LastAndNthWeekdays) {
  EXPECT_THAT(After("0 0 * * FRIL", "UTC", "2026-01-01T00:00:00Z", 2),
              ElementsAre("2026-01-30T00:00:00+00:00", "2026-02-27T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 * * FRIL", "UTC", "2026-07-01T00:00:00Z", 1),
              ElementsAre("2026-07-31T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 * * 7L", "UTC", "2026-02-01T00:00:00Z", 2),
              ElementsAre("2026-02-22T00:00:00+00:00", "2026-03-29T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 * * 5#3", "UTC", "2026-01-01T00:00:00Z", 2),
              ElementsAre("2026-01-16T00:00:00+00:00", "2026-02-20T00:00:00+00:00"));
  // Skips the months without a fifth Friday.
  EXPECT_THAT(After("0 0 * * FRI#5", "UTC", "2026-02-01T00:00:00Z", 1),
              ElementsAre("2026-05-29T00:00:00+00:00"));
}

TEST(CronNextTest, TwoRestrictedDayFieldsAreEither) {
  EXPECT_THAT(After("0 0 13 * FRI", "UTC", "2026-05-02T00:00:00Z", 4),
              ElementsAre("2026-05-08T00:00:00+00:00", "2026-05-13T00:00:00+00:00",
                          "2026-05-15T00:00:00+00:00", "2026-05-22T00:00:00+00:00"));
  // If one of the day fields has a star, a date must fit both fields.
  EXPECT_THAT(After("0 0 */2 * FRI", "UTC", "2026-05-02T00:00:00Z", 3),
              ElementsAre("2026-05-15T00:00:00+00:00", "2026-05-29T00:00:00+00:00",
                          "2026-06-05T00:00:00+00:00"));
  EXPECT_THAT(After("0 0 13 * ?", "UTC", "2026-05-02T00:00:00Z", 1),
              ElementsAre("2026-05-13T00:00:00+00:00"));
}

// An occurrence in a gap comes once, at the first moment after the gap.
TEST(CronClockChangeTest, OccurrencesInAGapComeOnceAfterIt) {
  EXPECT_THAT(After("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3),
              ElementsAre("2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00",
                          "2026-03-30T02:30:00+02:00"));
  EXPECT_THAT(After("*/20 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", 2),
              ElementsAre("2026-03-08T03:00:00-04:00", "2026-03-09T02:00:00-04:00"));
  EXPECT_THAT(After("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", 2),
              ElementsAre("2026-10-04T02:30:00+11:00", "2026-10-05T02:10:00+11:00"));
  EXPECT_THAT(After("30 1-3 * * *", "Europe/Berlin", "2026-03-29T00:00:00+01:00", 3),
              ElementsAre("2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00",
                          "2026-03-29T03:30:00+02:00"));
  EXPECT_THAT(After("30 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", 3),
              ElementsAre("2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00",
                          "2026-03-29T03:30:00+02:00"));
  // The next occurrence, which is outside the gap, follows.
  EXPECT_THAT(After("0,30 * * * *", "Europe/Berlin", "2026-03-29T01:00:00+01:00", 3),
              ElementsAre("2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00",
                          "2026-03-29T03:30:00+02:00"));
  // Next also works from the last second before the gap.
  EXPECT_THAT(After("30 2 * * *", "Europe/Berlin", "2026-03-29T01:59:59.900+01:00", 1),
              ElementsAre("2026-03-29T03:00:00+02:00"));
  EXPECT_THAT(After("30 3 * * *", "Europe/Berlin", "2026-03-29T01:59:59.900+01:00", 1),
              ElementsAre("2026-03-29T03:30:00+02:00"));
  // No occurrence falls into the gap.
  EXPECT_THAT(After("59 1 * * *", "Europe/Berlin", "2026-03-29T01:59:00+01:00", 1),
              ElementsAre("2026-03-30T01:59:00+02:00"));
  EXPECT_THAT(After("1 3 * * *", "Europe/Berlin", "2026-03-29T01:59:00+01:00", 1),
              ElementsAre("2026-03-29T03:01:00+02:00"));
}

TEST(CronClockChangeTest, AWholeDayCanBeAGap) {
  EXPECT_THAT(After("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00-10:00", 3),
              ElementsAre("2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00",
                          "2011-12-31T12:00:00+14:00"));
  EXPECT_THAT(After("0 12 30 12 *", "Pacific/Apia", "2011-01-01T00:00:00Z", 2),
              ElementsAre("2011-12-31T00:00:00+14:00", "2012-12-30T12:00:00+14:00"));
}

TEST(CronClockChangeTest, FixedHoursComeOnceInAnOverlap) {
  EXPECT_THAT(After("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00+02:00", 2),
              ElementsAre("2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"));
  EXPECT_THAT(After("*/30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", 3),
              ElementsAre("2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00",
                          "2026-11-02T01:00:00-05:00"));
  EXPECT_THAT(After("45 1 * * *", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", 2),
              ElementsAre("2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"));
  EXPECT_THAT(After("0,15,30,45 1,2 * * *", "Australia/Lord_Howe", "2026-04-05T01:20:00+11:00", 3),
              ElementsAre("2026-04-05T01:30:00+11:00", "2026-04-05T01:45:00+11:00",
                          "2026-04-05T02:00:00+10:30"));
}

TEST(CronClockChangeTest, HoursByPatternComeInBothPasses) {
  EXPECT_THAT(After("30 * * * *", "Europe/Berlin", "2026-10-25T01:00:00+02:00", 4),
              ElementsAre("2026-10-25T01:30:00+02:00", "2026-10-25T02:30:00+02:00",
                          "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"));
  EXPECT_THAT(After("0 */2 * * *", "Europe/Berlin", "2026-10-25T01:00:00+02:00", 3),
              ElementsAre("2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00",
                          "2026-10-25T04:00:00+01:00"));
  EXPECT_THAT(After("*/15 * * * *", "Australia/Lord_Howe", "2026-04-05T01:30:00+11:00", 4),
              ElementsAre("2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30",
                          "2026-04-05T01:45:00+10:30", "2026-04-05T02:00:00+10:30"));
}

// Next knows in which pass of an overlap it starts.
TEST(CronClockChangeTest, InsideOfAnOverlapThePassIsKnown) {
  EXPECT_THAT(After("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+02:00", 1),
              ElementsAre("2026-10-25T02:30:00+02:00"));
  EXPECT_THAT(After("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10:00+01:00", 1),
              ElementsAre("2026-10-26T02:30:00+01:00"));
  EXPECT_THAT(After("30 * * * *", "Europe/Berlin", "2026-10-25T02:50:00+02:00", 1),
              ElementsAre("2026-10-25T02:30:00+01:00"));
  EXPECT_THAT(After("30 * * * *", "Europe/Berlin", "2026-10-25T02:50:00+01:00", 1),
              ElementsAre("2026-10-25T03:30:00+01:00"));
}

TEST(CronNextTest, TimeEndsWithTheYear9999) {
  const CronExpression cron = Cron("0 0 1 * *");
  EXPECT_EQ(cron.Next(Ms("9999-11-30T00:00:00Z"), absl::UTCTimeZone()), Ms("9999-12-01T00:00:00Z"));
  EXPECT_EQ(cron.Next(Ms("9999-12-01T00:00:00Z"), absl::UTCTimeZone()), std::nullopt);
  EXPECT_EQ(cron.Next(std::numeric_limits<int64_t>::max(), absl::UTCTimeZone()), std::nullopt);
  // In zones east of UTC the year 10000 begins earlier.
  EXPECT_EQ(cron.Next(Ms("9999-12-01T00:00:00Z"), Zone("Asia/Tokyo")), Ms("9999-12-31T15:00:00Z"));
  EXPECT_EQ(cron.Next(Ms("9999-12-01T12:00:00Z"), Zone("America/New_York")), std::nullopt);
  const CronExpression every_second = Cron("* * * * * *");
  EXPECT_EQ(every_second.Next(Ms("9999-12-31T23:59:58Z"), absl::UTCTimeZone()),
            Ms("9999-12-31T23:59:59Z"));
  EXPECT_EQ(every_second.Next(Ms("9999-12-31T23:59:59Z"), Zone("Asia/Tokyo")), std::nullopt);
}

TEST(CronNextTest, TimeBeginsIn1970) {
  EXPECT_EQ(Cron("* * * * * *").Next(-1, absl::UTCTimeZone()), 0);
  EXPECT_EQ(Cron("@yearly").Next(std::numeric_limits<int64_t>::min(), absl::UTCTimeZone()), 0);
}

TEST(CronParseTest, AnExpressionThatNeverMatchesIsRefused) {
  for (const char* text : {"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 L-29 2 *", "0 0 30,31 FEB ?"}) {
    const absl::Status status = CronExpression::Parse(text, "recurrence.cron").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("never comes")) << text;
    const auto detail = base::GetErrorDetail(status);
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->reason, "INVALID_CRON");
    EXPECT_EQ(detail->field, "recurrence.cron");
    EXPECT_THAT(detail->metadata, Contains(Pair("field", "recurrence.cron")));
  }
  for (const char* text : {"0 0 30 2 1", "0 0 L-28 2 *", "0 0 31 1-4 *", "0 0 * 2 SUN#5"}) {
    EXPECT_TRUE(CronExpression::Parse(text).ok()) << text;
  }
}

TEST(CronParseTest, KeepsItsText) { EXPECT_EQ(Cron(" @Daily ").text(), " @Daily "); }

// Guarantee (3) of the header, checked with the rarest day over a whole cycle of the calendar.
TEST(CronCountTest, CountsWhatNextFinds) {
  struct Case {
    const char* cron;
    const char* zone;
    const char* after;
    const char* until;
  };
  const Case cases[] = {
      {"* * * * *", "UTC", "2026-05-04T00:00:30Z", "2026-05-04T00:02:00Z"},
      {"*/7 3-5 * * * *", "UTC", "2026-05-04T03:03:03Z", "2026-05-09T03:04:04Z"},
      {"0 9 * * MON-FRI", "Europe/Berlin", "2026-01-01T00:00:00Z", "2028-03-01T00:00:00Z"},
      {"*/10 * * * *", "Europe/Berlin", "2026-03-20T00:00:00Z", "2026-11-01T00:00:00Z"},
      {"30 2 * * *", "Europe/Berlin", "2026-03-20T00:00:00Z", "2026-11-01T00:00:00Z"},
      {"*/15 * * * *", "Australia/Lord_Howe", "2026-03-20T00:00:00Z", "2026-11-01T00:00:00Z"},
      {"0 */5 * * *", "Pacific/Apia", "2011-12-20T00:00:00Z", "2012-01-10T00:00:00Z"},
      {"59 23 * * *", "Asia/Kathmandu", "2026-05-04T18:14:00Z", "2026-05-06T18:14:00Z"},
      {"0 0 29 2 *", "UTC", "2026-05-04T00:00:00Z", "2050-05-04T00:00:00Z"},
  };
  for (const Case& one : cases) {
    const CronExpression cron = Cron(one.cron);
    const absl::TimeZone zone = Zone(one.zone);
    // Each end is tried at, before and after an occurrence.
    for (const int64_t shift_ms : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{59'999}}) {
      const int64_t after_ms = Ms(one.after) + shift_ms;
      const int64_t until_ms = Ms(one.until) - shift_ms;
      uint64_t found = 0;
      for (auto at = cron.Next(after_ms, zone); at.has_value() && *at <= until_ms;
           at = cron.Next(*at, zone)) {
        ++found;
      }
      EXPECT_EQ(cron.Count(after_ms, until_ms, zone), found) << one.cron << " " << one.zone;
    }
    EXPECT_EQ(cron.Count(Ms(one.until), Ms(one.after), zone), 0u);
  }
}

TEST(CronNextTest, OccurrencesAreAtMostFortyYearsApart) {
  constexpr int64_t kYearMs = int64_t{366} * 86'400'000;
  int64_t longest = 0;
  for (int weekday = 0; weekday < 7; ++weekday) {
    const CronExpression cron = Cron("0 0 ? 2 " + std::to_string(weekday) + "#5");
    int64_t at = 0;
    while (at < Ms("2450-01-01T00:00:00Z")) {
      const std::optional<int64_t> next = cron.Next(at, absl::UTCTimeZone());
      ASSERT_TRUE(next.has_value());
      longest = std::max(longest, *next - at);
      at = *next;
    }
  }
  EXPECT_EQ(longest / kYearMs, 39);
  EXPECT_EQ(longest, Ms("2212-02-29T00:00:00Z") - Ms("2172-02-29T00:00:00Z"));
}

}  // namespace
}  // namespace duetime::calendar
