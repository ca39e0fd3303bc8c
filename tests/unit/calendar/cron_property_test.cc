// SPDX-License-Identifier: Apache-2.0
//
// Compares CronExpression::Next with a walker over every second, for random expressions, around
// days on which clocks change. DUETIME_SEED repeats a run.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "server/calendar/cron.h"
#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"
#include "tests/unit/calendar/calendar_testing.h"

namespace duetime::calendar {
namespace {

using Random = std::mt19937_64;

int Roll(Random* random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(*random);
}

// A numeric field: its text, and one flag per value.
struct NumberField {
  std::string text;
  std::array<bool, 64> allows{};
  bool has_star = false;
  bool has_step = false;
};

NumberField MakeField(Random* random, int min, int max) {
  NumberField field;
  for (int items = std::max(1, Roll(random, -2, 3)); items > 0; --items) {
    const int form = Roll(random, 0, 4);
    int first = Roll(random, min, max);
    int last = form == 2 || form == 3 ? Roll(random, first, max) : max;
    int step = 1;
    std::string text = absl::StrCat(first);
    if (form == 0) {
      text = "*";
      first = min;
      field.has_star = true;
    } else if (form == 1) {
      last = first;
    } else if (form != 4) {
      absl::StrAppend(&text, "-", last);
    }
    if (form == 3 || form == 4 || (form == 0 && Roll(random, 0, 1) == 0)) {
      step = Roll(random, 1, max);
      absl::StrAppend(&text, "/", step);
      field.has_step = true;
    }
    for (int value = first; value <= last; value += step) {
      field.allows[static_cast<size_t>(value)] = true;
    }
    absl::StrAppend(&field.text, field.text.empty() ? "" : ",", text);
  }
  return field;
}

// Says whether a date fits, as the documentation of the cron language defines it.
using DayRule = std::function<bool(absl::CivilDay)>;

struct DayField {
  std::string text;
  DayRule fits;
  bool has_star = false;
};

int WeekdayOf(absl::CivilDay day) {
  switch (absl::GetWeekday(day)) {
    case absl::Weekday::sunday:
      return 0;
    case absl::Weekday::monday:
      return 1;
    case absl::Weekday::tuesday:
      return 2;
    case absl::Weekday::wednesday:
      return 3;
    case absl::Weekday::thursday:
      return 4;
    case absl::Weekday::friday:
      return 5;
    default:
      return 6;
  }
}

bool IsSameMonth(absl::CivilDay a, absl::CivilDay b) {
  return absl::CivilMonth(a) == absl::CivilMonth(b);
}

DayField MakeDayOfMonth(Random* random) {
  switch (Roll(random, 0, 7)) {
    case 0:
      return {"L", [](absl::CivilDay day) { return !IsSameMonth(day, day + 1); }};
    case 1: {
      const int before = Roll(random, 1, 5);
      return {absl::StrCat("L-", before), [before](absl::CivilDay day) {
                return IsSameMonth(day, day + before) && !IsSameMonth(day, day + before + 1);
              }};
    }
    case 2:
      return {"LW", [](absl::CivilDay day) {
                const auto works = [](absl::CivilDay d) {
                  return WeekdayOf(d) != 0 && WeekdayOf(d) != 6;
                };
                if (!works(day)) return false;
                for (++day; day.day() != 1; ++day) {
                  if (works(day)) return false;
                }
                return true;
              }};
    case 3:
      return {"?", [](absl::CivilDay) { return true; }, true};
    default: {
      const NumberField field = MakeField(random, 1, 31);
      return {field.text,
              [field](absl::CivilDay day) { return field.allows[static_cast<size_t>(day.day())]; },
              field.has_star};
    }
  }
}

DayField MakeDayOfWeek(Random* random) {
  const int weekday = Roll(random, 0, 7);
  switch (Roll(random, 0, 7)) {
    case 0:
      return {absl::StrCat(weekday, "L"), [weekday](absl::CivilDay day) {
                return WeekdayOf(day) == weekday % 7 && !IsSameMonth(day, day + 7);
              }};
    case 1: {
      const int nth = Roll(random, 1, 5);
      return {absl::StrCat(weekday, "#", nth), [weekday, nth](absl::CivilDay day) {
                return WeekdayOf(day) == weekday % 7 && (day.day() + 6) / 7 == nth;
              }};
    }
    case 2:
      return {"?", [](absl::CivilDay) { return true; }, true};
    default: {
      NumberField field = MakeField(random, 0, 7);
      field.allows[0] = field.allows[0] || field.allows[7];
      return {
          field.text,
          [field](absl::CivilDay day) { return field.allows[static_cast<size_t>(WeekdayOf(day))]; },
          field.has_star};
    }
  }
}

// A random expression and its meaning, which is computed without the code under test.
struct Sample {
  NumberField second;
  NumberField minute;
  NumberField hour;
  DayField day_of_month;
  NumberField month;
  DayField day_of_week;
  std::string text;

  bool FitsDay(absl::CivilDay day) const {
    if (!month.allows[static_cast<size_t>(day.month())]) return false;
    const bool both = day_of_month.has_star || day_of_week.has_star;
    const bool a = day_of_month.fits(day);
    const bool b = day_of_week.fits(day);
    return both ? a && b : a || b;
  }
  bool FitsTime(absl::CivilSecond civil) const {
    return hour.allows[static_cast<size_t>(civil.hour())] &&
           minute.allows[static_cast<size_t>(civil.minute())] &&
           second.allows[static_cast<size_t>(civil.second())];
  }
  bool hours_by_pattern() const { return hour.has_star || hour.has_step; }
};

// With `often`, makes an expression that fits most days and hours.
Sample MakeSample(Random* random, bool often) {
  const auto any = [] {
    NumberField field;
    field.text = "*";
    field.has_star = true;
    field.allows.fill(true);
    return field;
  };
  const DayField any_day = {"*", [](absl::CivilDay) { return true; }, true};
  const auto usually = [&] { return often && Roll(random, 0, 3) != 0; };
  const bool six = Roll(random, 0, 1) == 0;
  Sample sample;
  if (six) {
    sample.second = MakeField(random, 0, 59);
  } else {
    sample.second.allows[0] = true;
  }
  sample.minute = MakeField(random, 0, 59);
  sample.hour = MakeField(random, 0, often && Roll(random, 0, 1) == 0 ? 3 : 23);
  // Clocks change in the early hours. Lists and ranges may stay within hours 0 to 3. A star or a
  // step without an end would reach further, so the field is drawn again.
  if (sample.hour.has_star || sample.hour.has_step) sample.hour = MakeField(random, 0, 23);
  sample.month = usually() ? any() : MakeField(random, 1, 12);
  sample.day_of_month = usually() ? any_day : MakeDayOfMonth(random);
  sample.day_of_week = usually() ? any_day : MakeDayOfWeek(random);
  sample.text = absl::StrCat(six ? sample.second.text + " " : "", sample.minute.text, " ",
                             sample.hour.text, " ", sample.day_of_month.text, " ",
                             sample.month.text, " ", sample.day_of_week.text);
  return sample;
}

// Consecutive seconds in a zone, each with its civil time. `second_pass_` marks the seconds at
// which the clocks repeat a local time.
class Stretch {
 public:
  Stretch(const std::string& zone, const std::string& begin, int64_t seconds)
      : name_(absl::StrCat(zone, " from ", begin)), zone_(Zone(zone)), begin_(Ms(begin) / 1'000) {
    absl::CivilSecond latest = absl::CivilSecond::min();
    for (int64_t at = begin_ - 1; at < begin_ + seconds; ++at) {
      const absl::CivilSecond civil = zone_.At(absl::FromUnixSeconds(at)).cs;
      civils_.push_back(civil);
      second_pass_.push_back(civil <= latest);
      if (civils_.size() > 1 && civil != civils_[civils_.size() - 2] + 1) changes_.push_back(at);
      latest = std::max(latest, civil);
    }
  }

  // All occurrences of `sample`, in seconds since the epoch, found by a walk over every second.
  std::vector<int64_t> Walk(const Sample& sample) const {
    std::vector<int64_t> found;
    absl::CivilDay day = absl::CivilDay::min();
    bool day_fits = false;
    const auto fits = [&](absl::CivilSecond civil) {
      if (absl::CivilDay(civil) != day) {
        day = absl::CivilDay(civil);
        day_fits = sample.FitsDay(day);
      }
      return day_fits && sample.FitsTime(civil);
    };
    for (size_t i = 1; i < civils_.size(); ++i) {
      bool comes = fits(civils_[i]) && (!second_pass_[i] || sample.hours_by_pattern());
      for (auto gap = civils_[i - 1] + 1; gap < civils_[i] && !comes; ++gap) comes = fits(gap);
      if (comes) found.push_back(begin_ - 1 + static_cast<int64_t>(i));
    }
    return found;
  }

  const std::string& name() const { return name_; }
  const absl::TimeZone& zone() const { return zone_; }
  int64_t begin() const { return begin_; }
  // The seconds at which the clocks jump.
  const std::vector<int64_t>& changes() const { return changes_; }
  int64_t size() const { return static_cast<int64_t>(civils_.size()) - 1; }

 private:
  std::string name_;
  absl::TimeZone zone_;
  int64_t begin_;
  // Civil times from the second before `begin_` on.
  std::vector<absl::CivilSecond> civils_;
  std::vector<bool> second_pass_;
  std::vector<int64_t> changes_;
};

// True if Next agrees with the walker from every start that the test tries.
bool Agrees(const Sample& sample, const CronExpression& cron, const Stretch& stretch,
            Random* random) {
  const std::vector<int64_t> walked = stretch.Walk(sample);
  const auto expected = [&](int64_t after_ms) {
    return std::upper_bound(walked.begin(), walked.end(), after_ms,
                            [](int64_t ms, int64_t second) { return ms < second * 1'000; });
  };
  const int64_t end_ms = (stretch.begin() + stretch.size()) * 1'000;
  const auto check = [&](int64_t after_ms) {
    const std::optional<int64_t> next = cron.Next(after_ms, stretch.zone());
    const auto want = expected(after_ms);
    if (want == walked.end() ? !next.has_value() || *next >= end_ms : next == *want * 1'000) {
      return true;
    }
    ADD_FAILURE() << stretch.name() << ", \"" << sample.text << "\" after "
                  << Text(after_ms, stretch.zone()) << ": got "
                  << (next.has_value() ? Text(*next, stretch.zone()) : "nothing") << ", walked to "
                  << (want == walked.end() ? "nothing" : Text(*want * 1'000, stretch.zone()));
    return false;
  };
  // Starts at every occurrence, or at samples of a long chain. Then starts at the clock changes and
  // at random times.
  const size_t stride = walked.size() / 2'000 + 1;
  for (size_t i = 0; i < walked.size(); i += stride) {
    if (!check(walked[i] * 1'000) || !check(walked[i] * 1'000 - 1)) return false;
  }
  for (const int64_t change : stretch.changes()) {
    for (int64_t ms = -2'000; ms <= 1'000; ms += 500) {
      if (!check(change * 1'000 + ms)) return false;
    }
  }
  for (int i = 0; i < 300; ++i) {
    const auto offset = static_cast<int64_t>((*random)() % static_cast<uint64_t>(stretch.size()));
    if (!check((stretch.begin() + offset) * 1'000 + Roll(random, -1, 1))) return false;
  }
  return true;
}

TEST(CronPropertyTest, EverySecondAroundChangesOfTheClocks) {
  Random random(test::TestSeed());
  constexpr int64_t kHour = 3'600;
  const std::vector<Stretch> stretches = {
      {"America/New_York", "2026-03-07T12:00:00-05:00", 48 * kHour},
      {"America/New_York", "2600-03-08T12:00:00-05:00", 24 * kHour},
      {"America/New_York", "2026-10-31T12:00:00-04:00", 48 * kHour},
      {"Europe/Berlin", "2026-03-28T12:00:00+01:00", 48 * kHour},
      {"Europe/Berlin", "2026-10-24T12:00:00+02:00", 48 * kHour},
      {"Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", 48 * kHour},
      {"Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", 48 * kHour},
      {"Asia/Kolkata", "2027-12-31T06:00:00+05:30", 48 * kHour},
      {"Pacific/Apia", "2011-12-29T00:00:00-10:00", 60 * kHour},
      {"Africa/Casablanca", "2026-02-14T12:00:00+01:00", 48 * kHour},
      {"UTC", "2028-02-28T00:00:00Z", 72 * kHour},
  };
  for (const Stretch& stretch : stretches) {
    const bool changes =
        stretch.zone() != absl::UTCTimeZone() && stretch.zone() != Zone("Asia/Kolkata");
    ASSERT_EQ(stretch.changes().size(), changes ? 1u : 0u) << stretch.name();
  }
  int agreed = 0;
  const auto samples = static_cast<int>(test::Scaled(15));
  for (const Stretch& stretch : stretches) {
    for (int i = 0; i < samples; ++i) {
      const Sample sample = MakeSample(&random, /*often=*/true);
      const auto cron = CronExpression::Parse(sample.text);
      // An expression without any occurrence is refused.
      if (!cron.ok()) continue;
      ASSERT_TRUE(Agrees(sample, *cron, stretch, &random));
      ++agreed;
    }
  }
  EXPECT_GT(agreed, 4 * samples);
}

// Compares the day fields over twelve years.
TEST(CronPropertyTest, EveryDayOfTwelveYears) {
  Random random(test::TestSeed());
  const absl::CivilDay begin(2092, 1, 1);
  const absl::CivilDay end(2104, 1, 1);
  const auto ms = [](absl::CivilDay day) {
    return absl::ToUnixMillis(absl::FromCivil(day, absl::UTCTimeZone()));
  };
  const auto samples = static_cast<int>(test::Scaled(300));
  for (int i = 0; i < samples; ++i) {
    Sample sample = MakeSample(&random, /*often=*/false);
    const std::string text = absl::StrCat("0 0 ", sample.day_of_month.text, " ", sample.month.text,
                                          " ", sample.day_of_week.text);
    std::vector<int64_t> walked;
    for (absl::CivilDay day = begin; day < end; ++day) {
      if (sample.FitsDay(day)) walked.push_back(ms(day));
    }
    const auto cron = CronExpression::Parse(text);
    if (!cron.ok()) {
      EXPECT_TRUE(walked.empty()) << text << ": " << cron.status();
      continue;
    }
    std::vector<int64_t> found;
    std::optional<int64_t> next = cron->Next(ms(begin) - 1, absl::UTCTimeZone());
    while (next.has_value() && *next < ms(end)) {
      found.push_back(*next);
      next = cron->Next(*next, absl::UTCTimeZone());
    }
    ASSERT_EQ(found, walked) << text;
  }
}

}  // namespace
}  // namespace duetime::calendar
