// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/cron_fields.h"

#include <initializer_list>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/error.h"

namespace duetime::calendar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

CronFields Fields(const std::string& text) {
  const auto fields = ParseCronFields(text, "cron");
  EXPECT_TRUE(fields.ok()) << fields.status();
  return fields.value_or(CronFields{});
}

uint64_t Bits(std::initializer_list<int> values) {
  uint64_t bits = 0;
  for (const int value : values) bits |= uint64_t{1} << value;
  return bits;
}

uint64_t BitsFromTo(int first, int last) {
  uint64_t bits = 0;
  for (int value = first; value <= last; ++value) bits |= uint64_t{1} << value;
  return bits;
}

TEST(ParseCronFieldsTest, FiveFieldsBeginWithTheMinute) {
  const CronFields fields = Fields("1 2 3 4 5");
  EXPECT_EQ(fields.seconds, Bits({0}));
  EXPECT_EQ(fields.minutes, Bits({1}));
  EXPECT_EQ(fields.hours, Bits({2}));
  EXPECT_EQ(fields.days_of_month, Bits({3}));
  EXPECT_EQ(fields.months, Bits({4}));
  EXPECT_EQ(fields.weekdays, Bits({5}));
}

TEST(ParseCronFieldsTest, SixFieldsBeginWithTheSecond) {
  const CronFields fields = Fields(" 59\t1  2 3 4 5 ");
  EXPECT_EQ(fields.seconds, Bits({59}));
  EXPECT_EQ(fields.minutes, Bits({1}));
  EXPECT_EQ(fields.weekdays, Bits({5}));
}

TEST(ParseCronFieldsTest, AStarIsEveryValue) {
  const CronFields fields = Fields("* * * * * *");
  EXPECT_EQ(fields.seconds, BitsFromTo(0, 59));
  EXPECT_EQ(fields.minutes, BitsFromTo(0, 59));
  EXPECT_EQ(fields.hours, BitsFromTo(0, 23));
  EXPECT_EQ(fields.days_of_month, BitsFromTo(1, 31));
  EXPECT_EQ(fields.months, BitsFromTo(1, 12));
  EXPECT_EQ(fields.weekdays, BitsFromTo(0, 6));
}

TEST(ParseCronFieldsTest, ListsRangesAndSteps) {
  const CronFields fields = Fields("*/15 5,1-3,10-20/5 7/10 2-10/4 5,*/6");
  EXPECT_EQ(fields.seconds, Bits({0}));
  EXPECT_EQ(fields.minutes, Bits({0, 15, 30, 45}));
  EXPECT_EQ(fields.hours, Bits({1, 2, 3, 5, 10, 15, 20}));
  EXPECT_EQ(fields.days_of_month, Bits({7, 17, 27}));
  EXPECT_EQ(fields.months, Bits({2, 6, 10}));
  EXPECT_EQ(fields.weekdays, Bits({0, 5, 6}));
}

TEST(ParseCronFieldsTest, NamesOfEitherCase) {
  const CronFields fields = Fields("0 0 * jan,MAR-May,dEc sun,TUE-thu");
  EXPECT_EQ(fields.months, Bits({1, 3, 4, 5, 12}));
  EXPECT_EQ(fields.weekdays, Bits({0, 2, 3, 4}));
}

TEST(ParseCronFieldsTest, SundayIsZeroAndSeven) {
  const std::map<std::string, uint64_t> cases = {{"0", Bits({0})},
                                                 {"7", Bits({0})},
                                                 {"SUN", Bits({0})},
                                                 {"5-7", Bits({0, 5, 6})},
                                                 {"FRI-SUN", Bits({0, 5, 6})},
                                                 {"SUN-TUE", Bits({0, 1, 2})},
                                                 {"6-0", Bits({0, 6})},
                                                 {"0-7", BitsFromTo(0, 6)},
                                                 {"*", BitsFromTo(0, 6)},
                                                 {"*/2", Bits({0, 2, 4, 6})},
                                                 {"*/7", Bits({0})},
                                                 {"1/6", Bits({0, 1})},
                                                 {"2/5", Bits({0, 2})},
                                                 {"3/2", Bits({0, 3, 5})},
                                                 {"1/2", Bits({0, 1, 3, 5})},
                                                 {"2/2", Bits({2, 4, 6})},
                                                 {"5/1", Bits({0, 5, 6})},
                                                 {"7/2", Bits({0})}};
  for (const auto& [text, bits] : cases) {
    EXPECT_EQ(Fields("0 0 * * " + text).weekdays, bits) << text;
  }
}

TEST(ParseCronFieldsTest, LastDays) {
  const CronFields fields = Fields("0 0 L,l-3,LW,15 * ?");
  EXPECT_EQ(fields.days_before_last, Bits({0, 3}));
  EXPECT_TRUE(fields.last_working_day);
  EXPECT_EQ(fields.days_of_month, Bits({15}));
  EXPECT_FALSE(fields.any_day_of_month);
  EXPECT_TRUE(fields.any_weekday);
  EXPECT_FALSE(Fields("0 0 L * *").last_working_day);
}

TEST(ParseCronFieldsTest, LastAndNthWeekdays) {
  const CronFields fields = Fields("0 0 ? * FRIL,7l,1#1,tue#5,7#5,3");
  EXPECT_EQ(fields.last_weekdays, Bits({0, 5}));
  EXPECT_THAT(fields.nth_weekdays, ElementsAre(Bits({1}), 0, 0, 0, Bits({0, 2})));
  EXPECT_EQ(fields.weekdays, Bits({3}));
  EXPECT_TRUE(fields.any_day_of_month);
  EXPECT_FALSE(fields.any_weekday);
}

TEST(ParseCronFieldsTest, AFieldWithAStarIsNoRestriction) {
  EXPECT_TRUE(Fields("0 0 */2 * 1").any_day_of_month);
  EXPECT_TRUE(Fields("0 0 1,*/2 * 1").any_day_of_month);
  EXPECT_FALSE(Fields("0 0 1-31 * 1").any_day_of_month);
  EXPECT_TRUE(Fields("0 0 1 * */2").any_weekday);
  EXPECT_FALSE(Fields("0 0 1 * 1/2").any_weekday);
}

TEST(ParseCronFieldsTest, HoursByPattern) {
  for (const char* hours : {"*", "*/2", "8-18/2", "1/3", "1,8-18/2"}) {
    EXPECT_TRUE(Fields(std::string("0 ") + hours + " * * *").hours_by_pattern) << hours;
  }
  for (const char* hours : {"2", "1,2,3", "0-23"}) {
    EXPECT_FALSE(Fields(std::string("*/5 ") + hours + " * * *").hours_by_pattern) << hours;
  }
}

TEST(ParseCronFieldsTest, Macros) {
  const std::map<std::string, std::string> cases = {
      {"@hourly", "0 * * * *"},    {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
      {"@weekly", "0 0 * * 0"},    {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
      {" @Annually ", "0 0 1 1 *"}};
  for (const auto& [macro, text] : cases) {
    const CronFields a = Fields(macro);
    const CronFields b = Fields(text);
    EXPECT_EQ(a.seconds, b.seconds) << macro;
    EXPECT_EQ(a.minutes, b.minutes) << macro;
    EXPECT_EQ(a.hours, b.hours) << macro;
    EXPECT_EQ(a.days_of_month, b.days_of_month) << macro;
    EXPECT_EQ(a.months, b.months) << macro;
    EXPECT_EQ(a.weekdays, b.weekdays) << macro;
    EXPECT_EQ(a.hours_by_pattern, b.hours_by_pattern) << macro;
  }
}

// The parts of an error: cron_field, position, value, allowed.
struct Blame {
  std::string field;
  std::string position;
  std::string value;
  std::string allowed;
};

bool operator==(const Blame& a, const Blame& b) {
  return a.field == b.field && a.position == b.position && a.value == b.value &&
         a.allowed == b.allowed;
}

void PrintTo(const Blame& blame, std::ostream* out) {
  *out << blame.field << " at " << blame.position << ": " << blame.value << " not in "
       << blame.allowed;
}

Blame BlameOf(const std::string& text) {
  const absl::Status status = ParseCronFields(text, "cron").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  const auto detail = base::GetErrorDetail(status);
  if (!detail.has_value()) return {};
  EXPECT_EQ(detail->reason, "INVALID_CRON");
  EXPECT_EQ(detail->field, "cron");
  std::map<std::string, std::string> parts(detail->metadata.begin(), detail->metadata.end());
  // The error text for people also contains the metadata.
  for (const auto& [name, part] : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << text;
  }
  EXPECT_EQ(parts["field"], "cron");
  return {parts["cron_field"], parts["position"], parts["value"], parts["allowed"]};
}

TEST(ParseCronFieldsTest, OutOfRangeIsRefusedWhereItStands) {
  EXPECT_EQ(BlameOf("60 * * * *"), (Blame{"minute", "1", "60", "0-59"}));
  EXPECT_EQ(BlameOf("60 * * * * *"), (Blame{"second", "1", "60", "0-59"}));
  EXPECT_EQ(BlameOf("0  1,24 * * *"), (Blame{"hour", "6", "24", "0-23"}));
  EXPECT_EQ(BlameOf("0 0 0 * *"), (Blame{"day-of-month", "5", "0", "1-31"}));
  EXPECT_EQ(BlameOf("0 0 1-32 * *"), (Blame{"day-of-month", "7", "32", "1-31"}));
  EXPECT_EQ(BlameOf("0 0 * 13 *"), (Blame{"month", "7", "13", "1-12"}));
  EXPECT_EQ(BlameOf("0 0 * * 8"), (Blame{"day-of-week", "9", "8", "0-7"}));
  EXPECT_EQ(BlameOf("0 0 * * 99999999999999999999"),
            (Blame{"day-of-week", "9", "99999999999999999999", "0-7"}));
}

TEST(ParseCronFieldsTest, StepsThatNeverStepAreRefused) {
  EXPECT_EQ(BlameOf("*/0 * * * *"), (Blame{"minute", "3", "0", "1-59"}));
  EXPECT_EQ(BlameOf("*/90 * * * *"), (Blame{"minute", "3", "90", "1-59"}));
  EXPECT_EQ(BlameOf("0 */24 * * *"), (Blame{"hour", "5", "24", "1-23"}));
  EXPECT_EQ(BlameOf("0 0-5/x * * *"), (Blame{"hour", "7", "x", "1-23"}));
  EXPECT_EQ(BlameOf("0 0-5/ * * *"), (Blame{"hour", "7", "", "1-23"}));
}

TEST(ParseCronFieldsTest, OtherTextIsRefused) {
  EXPECT_EQ(BlameOf("x * * * *"), (Blame{"minute", "1", "x", "0-59"}));
  EXPECT_EQ(BlameOf("-1 * * * *"), (Blame{"minute", "1", "", "0-59"}));
  EXPECT_EQ(BlameOf("* MON * * *"), (Blame{"hour", "3", "MON", "0-23"}));
  EXPECT_EQ(BlameOf("0 0 * MON *"), (Blame{"month", "7", "MON", "1-12 or JAN-DEC"}));
  EXPECT_EQ(BlameOf("0 0 * * FRIDAY"), (Blame{"day-of-week", "9", "FRIDAY", "0-7 or SUN-SAT"}));
  EXPECT_EQ(BlameOf("0 0 * * MO"), (Blame{"day-of-week", "9", "MO", "0-7 or SUN-SAT"}));
  EXPECT_EQ(BlameOf("1,,2 * * * *"), (Blame{"minute", "3", "", ""}));
  EXPECT_EQ(BlameOf("1, * * * *"), (Blame{"minute", "3", "", ""}));
  EXPECT_EQ(BlameOf("10-5 * * * *"), (Blame{"minute", "1", "10-5", ""}));
  EXPECT_EQ(BlameOf("0 0 * * SAT-MON"), (Blame{"day-of-week", "9", "SAT-MON", ""}));
  EXPECT_EQ(BlameOf("*-5 * * * *"), (Blame{"minute", "1", "*", "0-59"}));
  EXPECT_EQ(BlameOf("1-2-3 * * * *"), (Blame{"minute", "3", "2-3", "0-59"}));
  EXPECT_EQ(BlameOf("1/2/3 * * * *"), (Blame{"minute", "3", "2/3", "1-59"}));
  EXPECT_EQ(BlameOf("\xff * * * *"), (Blame{"minute", "1", "\\xff", "0-59"}));
}

TEST(ParseCronFieldsTest, TheSpecialFormsHaveTheirOwnLimits) {
  EXPECT_EQ(BlameOf("? * * * *"), (Blame{"minute", "1", "?", "0-59"}));
  EXPECT_EQ(BlameOf("0 0 ?,1 * *"), (Blame{"day-of-month", "5", "?", "1-31"}));
  EXPECT_EQ(BlameOf("0 0 L-31 * *"), (Blame{"day-of-month", "7", "31", "1-30"}));
  EXPECT_EQ(BlameOf("0 0 L-0 * *"), (Blame{"day-of-month", "7", "0", "1-30"}));
  EXPECT_EQ(BlameOf("0 0 L3 * *"), (Blame{"day-of-month", "5", "L3", "L, L-1 to L-30, LW"}));
  EXPECT_EQ(BlameOf("0 0 15W * *"), (Blame{"day-of-month", "5", "15W", "1-31"}));
  EXPECT_EQ(BlameOf("0 0 * L *"), (Blame{"month", "7", "L", "1-12 or JAN-DEC"}));
  EXPECT_EQ(BlameOf("0 0 * * L"), (Blame{"day-of-week", "9", "L", "0L-7L, SUNL-SATL"}));
  EXPECT_EQ(BlameOf("0 0 * * 8L"), (Blame{"day-of-week", "9", "8", "0-7"}));
  EXPECT_EQ(BlameOf("0 0 * * 5#6"), (Blame{"day-of-week", "11", "6", "1-5"}));
  EXPECT_EQ(BlameOf("0 0 * * 5#0"), (Blame{"day-of-week", "11", "0", "1-5"}));
  EXPECT_EQ(BlameOf("0 0 * * #3"), (Blame{"day-of-week", "9", "", "0-7 or SUN-SAT"}));
  EXPECT_EQ(BlameOf("0 0 5#3 * *"), (Blame{"day-of-month", "5", "5#3", "1-31"}));
}

TEST(ParseCronFieldsTest, TheWholeHasFiveOrSixFields) {
  for (const char* text : {"", "*", "* * * *", "* * * * * * *", "@reboot", "@", "@daily 1"}) {
    const absl::Status status = ParseCronFields(text, "cron").status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(" fields; write 5 (minute")) << text;
  }
  const std::string fits = std::string(kCronTextSizeMax - 9, ' ') + "* * * * *";
  EXPECT_TRUE(ParseCronFields(fits, "cron").ok());
  EXPECT_THAT(std::string(ParseCronFields(" " + fits, "cron").status().message()),
              HasSubstr("longer than 512"));
}

TEST(ParseCronFieldsTest, TheErrorReadsWell) {
  EXPECT_EQ(ParseCronFields("0 9 * * MON-FRY", "recurrence.cron").status().message(),
            "cron expression, day-of-week field, position 13: \"FRY\" is neither a number nor a "
            "name; allowed: 0-7 or SUN-SAT");
  EXPECT_EQ(ParseCronFields("*/90 * * * *", "").status().message(),
            "cron expression, minute field, position 3: \"90\" is out of range (the step); "
            "allowed: 1-59");
}

}  // namespace
}  // namespace duetime::calendar
