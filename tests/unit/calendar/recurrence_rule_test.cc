// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/recurrence_rule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "tests/unit/calendar/calendar_testing.h"

namespace duetime::calendar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int64_t kHourMs = 3'600'000;
constexpr int64_t kStartMs = 1'700'000'000'123;

RecurrenceRule Hourly() {
  RecurrenceRule rule;
  rule.interval_ms = kHourMs;
  rule.start_ms = kStartMs;
  return rule;
}

Recurrence Compiled(const RecurrenceRule& rule) {
  auto recurrence = Recurrence::Compile(rule, "recurrence");
  EXPECT_TRUE(recurrence.ok()) << recurrence.status();
  if (!recurrence.ok()) recurrence = Recurrence::Compile(Hourly(), "");
  return *std::move(recurrence);
}

RecurrenceRule DailyInBerlin() {
  RecurrenceRule rule;
  rule.cron = "30 2 * * *";
  rule.time_zone = "Europe/Berlin";
  rule.start_ms = Ms("2026-03-28T02:30:00+01:00");
  return rule;
}

TEST(RecurrenceTest, AnIntervalIsAnchoredAtItsStart) {
  const Recurrence recurrence = Compiled(Hourly());
  EXPECT_EQ(recurrence.NextAfter(std::numeric_limits<int64_t>::min()), kStartMs);
  EXPECT_EQ(recurrence.NextAfter(kStartMs - 1), kStartMs);
  EXPECT_EQ(recurrence.NextAfter(kStartMs), kStartMs + kHourMs);
  EXPECT_EQ(recurrence.NextAfter(kStartMs + kHourMs - 1), kStartMs + kHourMs);
  EXPECT_EQ(recurrence.NextAfter(kStartMs + kHourMs), kStartMs + 2 * kHourMs);
}

TEST(RecurrenceTest, AnIntervalDoesNotLookAtTheClocksOfAZone) {
  RecurrenceRule rule = Hourly();
  rule.time_zone = "Europe/Berlin";
  rule.start_ms = Ms("2026-03-29T01:30:00+01:00");
  EXPECT_THAT(Compiled(rule).Preview(0, 2),
              ElementsAre(rule.start_ms, Ms("2026-03-29T03:30:00+02:00")));
}

TEST(RecurrenceTest, ACronExpressionIsReadInItsZone) {
  EXPECT_THAT(Compiled(DailyInBerlin()).Preview(0, 3),
              ElementsAre(Ms("2026-03-28T02:30:00+01:00"), Ms("2026-03-29T03:00:00+02:00"),
                          Ms("2026-03-30T02:30:00+02:00")));
  RecurrenceRule rule = DailyInBerlin();
  rule.time_zone = "";
  EXPECT_THAT(Compiled(rule).Preview(0, 1), ElementsAre(Ms("2026-03-28T02:30:00Z")));
}

TEST(RecurrenceTest, NothingIsBeforeTheStart) {
  RecurrenceRule rule = DailyInBerlin();
  rule.start_ms += 1;
  EXPECT_EQ(Compiled(rule).NextAfter(0), Ms("2026-03-29T03:00:00+02:00"));
}

TEST(RecurrenceTest, TheEndIsExclusive) {
  RecurrenceRule rule = Hourly();
  rule.end_ms = kStartMs + 2 * kHourMs;
  EXPECT_THAT(Compiled(rule).Preview(0, 9), ElementsAre(kStartMs, kStartMs + kHourMs));
  EXPECT_EQ(Compiled(rule).NextAfter(kStartMs + kHourMs), std::nullopt);
  rule.end_ms = kStartMs + 2 * kHourMs + 1;
  EXPECT_EQ(Compiled(rule).Preview(0, 9).size(), 3u);

  RecurrenceRule cron = DailyInBerlin();
  cron.end_ms = Ms("2026-03-30T02:30:00+02:00");
  EXPECT_EQ(Compiled(cron).Preview(0, 9).size(), 2u);
}

TEST(RecurrenceTest, TimeEndsWithTheYear9999) {
  RecurrenceRule rule = Hourly();
  rule.start_ms = Ms("9999-12-31T23:00:00.000Z");
  const Recurrence recurrence = Compiled(rule);
  EXPECT_EQ(recurrence.NextAfter(0), rule.start_ms);
  EXPECT_EQ(recurrence.NextAfter(rule.start_ms), std::nullopt);
  EXPECT_EQ(recurrence.NextAfter(std::numeric_limits<int64_t>::max()), std::nullopt);
}

TEST(RecurrenceTest, TheCountIsTheCallers) {
  RecurrenceRule rule = Hourly();
  EXPECT_FALSE(Compiled(rule).IsComplete(0));
  EXPECT_FALSE(Compiled(rule).IsComplete(std::numeric_limits<uint64_t>::max()));
  rule.max_count = 3;
  EXPECT_FALSE(Compiled(rule).IsComplete(2));
  EXPECT_TRUE(Compiled(rule).IsComplete(3));
  EXPECT_TRUE(Compiled(rule).IsComplete(4));
}

TEST(RecurrenceTest, APreviewBeginsAtItsFirstMoment) {
  const Recurrence recurrence = Compiled(Hourly());
  EXPECT_THAT(recurrence.Preview(kStartMs + kHourMs, 2),
              ElementsAre(kStartMs + kHourMs, kStartMs + 2 * kHourMs));
  EXPECT_THAT(recurrence.Preview(kStartMs + kHourMs + 1, 1), ElementsAre(kStartMs + 2 * kHourMs));
  EXPECT_THAT(recurrence.Preview(std::numeric_limits<int64_t>::min(), 1), ElementsAre(kStartMs));
  EXPECT_THAT(recurrence.Preview(std::numeric_limits<int64_t>::max(), 1), IsEmpty());
  EXPECT_THAT(recurrence.Preview(0, 0), IsEmpty());
}

TEST(RecurrenceTest, TheFirstTimeIsNotBeforeNowExceptAStartThatHasJustPassed) {
  RecurrenceRule ends = Hourly();
  ends.end_ms = kStartMs + 10;
  RecurrenceRule cron = DailyInBerlin();
  const int64_t cron_ms = cron.start_ms;
  struct Case {
    RecurrenceRule rule;
    int64_t now_ms;
    std::optional<int64_t> first_ms;
  };
  const Case cases[] = {
      {Hourly(), 0, kStartMs},
      {Hourly(), kStartMs, kStartMs},
      {Hourly(), kStartMs + kHourMs - 1, kStartMs},
      {Hourly(), kStartMs + kHourMs, kStartMs + kHourMs},
      {Hourly(), kStartMs + kHourMs + 1, kStartMs + 2 * kHourMs},
      {ends, kStartMs + 9, kStartMs},
      {ends, kStartMs + 10, std::nullopt},
      {cron, 0, cron_ms},
      {cron, cron_ms, cron_ms},
      {cron, cron_ms + 1, Ms("2026-03-29T03:00:00+02:00")},
  };
  for (const Case& one : cases) EXPECT_EQ(Compiled(one.rule).First(one.now_ms), one.first_ms);
}

TEST(RecurrenceTest, CountsTheTimesBetweenTwoMoments) {
  RecurrenceRule ends = Hourly();
  ends.end_ms = kStartMs + 3 * kHourMs;
  RecurrenceRule cron;
  cron.cron = "0 * * * *";
  const int64_t hour_ms = Ms("2026-05-04T00:00:00Z");
  struct Case {
    RecurrenceRule rule;
    int64_t after_ms;
    int64_t until_ms;
    uint64_t most;
    std::optional<uint64_t> count;
  };
  const Case cases[] = {
      {Hourly(), 0, kStartMs - 1, 9, 0},
      {Hourly(), 0, kStartMs, 9, 1},
      {Hourly(), kStartMs, kStartMs, 9, 0},
      {Hourly(), kStartMs, kStartMs + kHourMs, 9, 1},
      {Hourly(), kStartMs, kStartMs + 30'000 * kHourMs, 9, 30'000},
      {ends, 0, kStartMs + 9 * kHourMs, 9, 3},
      {ends, kStartMs + 9 * kHourMs, kStartMs + 10 * kHourMs, 9, 0},
      {cron, hour_ms - 1, hour_ms + 8 * kHourMs, 9, 9},
      {cron, hour_ms, hour_ms + 8 * kHourMs, 9, 8},
      {cron, hour_ms - 1, hour_ms + 9 * kHourMs, 9, std::nullopt},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(Compiled(one.rule).CountBetween(one.after_ms, one.until_ms, one.most), one.count)
        << one.after_ms << " " << one.until_ms;
    if (!one.count.has_value()) continue;
    const Recurrence rule = Compiled(one.rule);
    EXPECT_EQ(rule.Count(one.after_ms, one.until_ms), *one.count);
    const auto last = rule.LastBetween(one.after_ms, one.until_ms);
    EXPECT_EQ(last.has_value(), *one.count > 0);
    if (!last.has_value()) continue;
    EXPECT_EQ(rule.Count(one.after_ms, *last - 1), *one.count - 1);
    EXPECT_EQ(rule.Count(*last, one.until_ms), 0u);
  }
}

TEST(RecurrenceTest, TheLastTimeIsFoundFromFarAway) {
  RecurrenceRule seldom;
  seldom.cron = "0 0 29 2 *";
  EXPECT_EQ(Compiled(seldom).LastBetween(0, Ms("2027-02-28T00:00:00Z")),
            Ms("2024-02-29T00:00:00Z"));
  RecurrenceRule often;
  often.cron = "* * * * * *";
  EXPECT_EQ(Compiled(often).LastBetween(0, Ms("2027-02-28T00:00:00.5Z")),
            Ms("2027-02-28T00:00:00Z"));
  // The search costs the same however many times lie before the end, and however long ago it was.
  often.end_ms = Ms("1995-01-01T00:00:00Z");
  EXPECT_EQ(Compiled(often).LastBetween(0, Ms("2027-02-28T00:00:00Z")), Ms("1994-12-31T23:59:59Z"));
  RecurrenceRule first_months;
  first_months.cron = "* * * * 1-6 *";
  EXPECT_EQ(Compiled(first_months).LastBetween(0, Ms("2026-12-31T00:00:00Z")),
            Ms("2026-06-30T23:59:59Z"));
}

TEST(JitterTest, IsStableAndWithinItsBounds) {
  RecurrenceRule rule = Hourly();
  rule.jitter_ms = 9;
  const Recurrence recurrence = Compiled(rule);
  std::map<int64_t, int> counts;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    const int64_t jitter = recurrence.JitterOf(seed, kStartMs);
    EXPECT_EQ(jitter, recurrence.JitterOf(seed, kStartMs));
    ++counts[jitter];
  }
  // Values 0 to 9, each about 1,000 times. A deviation of 200 is more than six standard deviations.
  ASSERT_EQ(counts.size(), 10u);
  EXPECT_EQ(counts.begin()->first, 0);
  EXPECT_EQ(counts.rbegin()->first, 9);
  for (const auto& [jitter, count] : counts) EXPECT_NEAR(count, 1'000, 200) << jitter;
}

TEST(JitterTest, DiffersFromTimeToTime) {
  RecurrenceRule rule = Hourly();
  rule.jitter_ms = kHourMs - 1;
  const Recurrence recurrence = Compiled(rule);
  std::set<int64_t> seen;
  for (const int64_t time : recurrence.Preview(0, 100)) seen.insert(recurrence.JitterOf(7, time));
  EXPECT_GT(seen.size(), 95u);
}

// Stored rules must keep their jitter after an upgrade of the program.
TEST(JitterTest, IsTheSameForever) {
  RecurrenceRule rule = Hourly();
  rule.jitter_ms = 1'000'000;
  EXPECT_EQ(Compiled(rule).JitterOf(1, kStartMs), 905'574);
  EXPECT_EQ(Compiled(rule).JitterOf(2, kStartMs), 74'693);
}

TEST(JitterTest, IsZeroUnlessAskedFor) {
  EXPECT_EQ(Compiled(Hourly()).JitterOf(12'345, kStartMs), 0);
}

TEST(JitterTest, StopsBeforeTheNextTimeOfACronExpression) {
  RecurrenceRule rule;
  rule.cron = "0,1 0 0 * * *";
  rule.jitter_ms = 2'000;
  const Recurrence recurrence = Compiled(rule);
  const int64_t first_ms = Ms("2026-05-04T00:00:00Z");
  int64_t most_of_first = 0;
  int64_t most_of_second = 0;
  for (uint64_t seed = 0; seed < 40'000; ++seed) {
    most_of_first = std::max(most_of_first, recurrence.JitterOf(seed, first_ms));
    most_of_second = std::max(most_of_second, recurrence.JitterOf(seed, first_ms + 1'000));
  }
  EXPECT_EQ(most_of_first, 999);
  EXPECT_EQ(most_of_second, 2'000);
}

TEST(JitterTest, StopsBeforeTheEnd) {
  RecurrenceRule rule = Hourly();
  rule.jitter_ms = kHourMs - 1;
  rule.end_ms = kStartMs + 10;
  const Recurrence recurrence = Compiled(rule);
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 1'000; ++seed) seen.insert(recurrence.JitterOf(seed, kStartMs));
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// The reason of the error, and the field below "recurrence".
std::pair<std::string, std::string> Refused(const RecurrenceRule& rule) {
  const absl::Status status = Recurrence::Compile(rule, "recurrence").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const auto detail = base::GetErrorDetail(status);
  if (!detail.has_value()) return {};
  return {detail->reason, detail->field};
}

RecurrenceRule HourlyWith(int64_t RecurrenceRule::*member, int64_t value) {
  RecurrenceRule rule = Hourly();
  rule.*member = value;
  return rule;
}

TEST(CompileRecurrenceTest, EitherCronOrInterval) {
  EXPECT_THAT(Refused({}), Pair("INVALID_RECURRENCE", "recurrence"));
  RecurrenceRule both = Hourly();
  both.cron = "* * * * *";
  EXPECT_THAT(Refused(both), Pair("INVALID_RECURRENCE", "recurrence"));
}

TEST(CompileRecurrenceTest, Ranges) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t interval_ms : {kMin, int64_t{-1}, int64_t{1}, int64_t{999}, kMax}) {
    EXPECT_THAT(Refused(HourlyWith(&RecurrenceRule::interval_ms, interval_ms)),
                Pair("INVALID_RECURRENCE", "recurrence.interval"))
        << interval_ms;
  }
  EXPECT_TRUE(
      Recurrence::Compile(HourlyWith(&RecurrenceRule::interval_ms, 1'000), "recurrence").ok());
  for (const int64_t start_ms : {kMin, int64_t{-1}, kMax}) {
    EXPECT_THAT(Refused(HourlyWith(&RecurrenceRule::start_ms, start_ms)),
                Pair("INVALID_RECURRENCE", "recurrence.start_time"))
        << start_ms;
  }
  for (const int64_t jitter_ms : {kMin, int64_t{-1}, kHourMs, kMax}) {
    EXPECT_THAT(Refused(HourlyWith(&RecurrenceRule::jitter_ms, jitter_ms)),
                Pair("INVALID_RECURRENCE", "recurrence.jitter"))
        << jitter_ms;
  }
  for (const int64_t end_ms : {kMin, kStartMs - 1, kStartMs, kMax}) {
    RecurrenceRule rule = Hourly();
    rule.end_ms = end_ms;
    EXPECT_THAT(Refused(rule), Pair("INVALID_RECURRENCE", "recurrence.end_time")) << end_ms;
  }
}

TEST(CompileRecurrenceTest, TheErrorNamesTheLimits) {
  const absl::Status status =
      Recurrence::Compile(HourlyWith(&RecurrenceRule::jitter_ms, kHourMs), "").status();
  EXPECT_EQ(status.message(), "jitter is 3600000 ms; it has to be from 0 to 3599999 ms");
  const auto detail = base::GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->field, "jitter");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("value", "3600000"), Pair("min", "0"),
                                            Pair("max", "3599999"), Pair("field", "jitter")));
}

TEST(CompileRecurrenceTest, ErrorsBelowKeepTheirReason) {
  RecurrenceRule rule = DailyInBerlin();
  rule.cron = "30 25 * * *";
  EXPECT_THAT(Refused(rule), Pair("INVALID_CRON", "recurrence.cron"));
  rule = DailyInBerlin();
  rule.time_zone = "Europe/Atlantis";
  EXPECT_THAT(Refused(rule), Pair("INVALID_TIME_ZONE", "recurrence.time_zone"));
  rule = Hourly();
  rule.time_zone = "Europe/Atlantis";
  EXPECT_THAT(Refused(rule), Pair("INVALID_TIME_ZONE", "recurrence.time_zone"));
}

TEST(CompileRecurrenceTest, ThereHasToBeATime) {
  RecurrenceRule rule = DailyInBerlin();
  rule.start_ms += 1;
  rule.end_ms = rule.start_ms + kHourMs;
  EXPECT_THAT(Refused(rule), Pair("INVALID_RECURRENCE", "recurrence.end_time"));
  EXPECT_THAT(std::string(Recurrence::Compile(rule, "").status().message()),
              HasSubstr("no time between its start and its end"));
  rule.start_ms -= 1;
  EXPECT_TRUE(Recurrence::Compile(rule, "").ok());
}

}  // namespace
}  // namespace duetime::calendar
