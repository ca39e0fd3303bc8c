// SPDX-License-Identifier: Apache-2.0
#include "client/cli/time_text.h"

#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace duetime::cli {
namespace {

absl::TimeZone Zone(const std::string& name) {
  absl::TimeZone zone;
  EXPECT_TRUE(absl::LoadTimeZone(name, &zone)) << name;
  return zone;
}

struct DurationCase {
  const char* text;
  absl::Duration expected;
};

TEST(ParseDurationTextTest, ReadsWhatPeopleWrite) {
  const std::vector<DurationCase> cases = {
      {"0s", absl::ZeroDuration()},
      {"0ms", absl::ZeroDuration()},
      {"90s", absl::Seconds(90)},
      {"007s", absl::Seconds(7)},
      {"1h30m", absl::Minutes(90)},
      {"2d", absl::Hours(48)},
      {"1w", absl::Hours(168)},
      {"500ms", absl::Milliseconds(500)},
      {"1m", absl::Minutes(1)},
      {"1m1ms", absl::Minutes(1) + absl::Milliseconds(1)},
      {"1w2d3h4m5s6ms",
       absl::Hours(9 * 24 + 3) + absl::Minutes(4) + absl::Seconds(5) + absl::Milliseconds(6)},
      {"1.5h", absl::Minutes(90)},
      {"0.000000001s", absl::Nanoseconds(1)},
      {"2.75ms", absl::Microseconds(2750)},
      {"1.25d", absl::Hours(30)},
      {"25h", absl::Hours(25)},
      {"100000d", absl::Hours(2'400'000)},
      {"3652425d", absl::Hours(24 * 3'652'425LL)},
  };
  ASSERT_EQ(cases.size(), 18u);
  for (const DurationCase& c : cases) {
    const auto read = ParseDurationText(c.text);
    ASSERT_TRUE(read.ok()) << c.text << ": " << read.status();
    EXPECT_EQ(*read, c.expected) << c.text;
  }
}

TEST(ParseDurationTextTest, RefusesNonsense) {
  const std::vector<std::string> cases = absl::StrSplit(
      "| |90|s|-5s|+5s|1x|1S|1M|1H|1h 30m| 90s|90s |1hour|1s1m|1s1s|30m1h|1ms1s|1.s|.5s|"
      "1.5|1e3s|0x10s|inf|nan|1,5h|1.0000000001s|1..5s|--|1-s|３s|3652426d|"
      "99999999999999999999s|9223372036854775807w|5000w5000000000d",
      '|');
  ASSERT_EQ(cases.size(), 35u);
  for (const std::string& text : cases) {
    const auto read = ParseDurationText(text);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    // The error shows the text and an example of the right form.
    EXPECT_TRUE(absl::StrContains(read.status().message(), text)) << read.status();
    EXPECT_TRUE(absl::StrContains(read.status().message(), "1h30m")) << read.status();
  }
}

struct TimeCase {
  const char* text;
  // Empty: no zone is given.
  const char* zone;
  const char* expected_utc;
};

TEST(ParseTimeTextTest, ReadsWhatPeopleWrite) {
  const std::vector<TimeCase> cases = {
      // RFC 3339, and shorter forms of it.
      {"2026-12-24T18:00:00Z", "", "2026-12-24T18:00:00Z"},
      {"2026-12-24t18:00:00z", "", "2026-12-24T18:00:00Z"},
      {"2026-12-24 18:00:00Z", "", "2026-12-24T18:00:00Z"},
      {"2026-12-24T18:00Z", "", "2026-12-24T18:00:00Z"},
      {"2026-12-24T18:00:00+08:00", "", "2026-12-24T10:00:00Z"},
      {"2026-12-24T18:00:00-08:30", "", "2026-12-25T02:30:00Z"},
      {"2026-12-24T18:00:00-00:00", "", "2026-12-24T18:00:00Z"},
      {"2026-12-24T18:00:00.5Z", "", "2026-12-24T18:00:00.5Z"},
      {"2026-12-24T18:00:00.000000001Z", "", "2026-12-24T18:00:00.000000001Z"},
      {"0001-01-01T00:00:00Z", "", "0001-01-01T00:00:00Z"},
      {"9999-12-31T23:59:59.999999999Z", "", "9999-12-31T23:59:59.999999999Z"},
      {"2028-02-29T00:00:00Z", "", "2028-02-29T00:00:00Z"},
      {"2026-12-24 8:00Z", "", "2026-12-24T08:00:00Z"},
      // Halves of a day.
      {"2026-12-24 6pm", "UTC", "2026-12-24T18:00:00Z"},
      {"2026-12-24 6:30:15.5 PM", "UTC", "2026-12-24T18:30:15.5Z"},
      {"2026-12-24 12am", "UTC", "2026-12-24T00:00:00Z"},
      {"2026-12-24 12:01Pm", "UTC", "2026-12-24T12:01:00Z"},
      // Civil time in a zone; the local one is New York here.
      {"2026-12-24 18:00", "Asia/Shanghai", "2026-12-24T10:00:00Z"},
      {"2026-12-24 18:00:30", "Asia/Shanghai", "2026-12-24T10:00:30Z"},
      {"2026-12-24T18:00:30.25", "Asia/Shanghai", "2026-12-24T10:00:30.25Z"},
      {"2026-12-24 18:00", "UTC", "2026-12-24T18:00:00Z"},
      {"2026-12-24 18:00", "", "2026-12-24T23:00:00Z"},
      {"2026-07-24 18:00", "", "2026-07-24T22:00:00Z"},
      // The edges of a clock change are not ambiguous.
      {"2026-03-29 01:59:59.999", "Europe/Berlin", "2026-03-29T00:59:59.999Z"},
      {"2026-03-29 03:00", "Europe/Berlin", "2026-03-29T01:00:00Z"},
      {"2026-10-25 01:59:59", "Europe/Berlin", "2026-10-24T23:59:59Z"},
      {"2026-10-25 03:00", "Europe/Berlin", "2026-10-25T02:00:00Z"},
      // An offset resolves the ambiguity.
      {"2026-10-25T02:30:00+01:00", "", "2026-10-25T01:30:00Z"},
  };
  ASSERT_EQ(cases.size(), 28u);
  for (const TimeCase& c : cases) {
    std::optional<absl::TimeZone> zone;
    if (*c.zone != '\0') zone = Zone(c.zone);
    const auto read = ParseTimeText(c.text, zone, Zone("America/New_York"));
    ASSERT_TRUE(read.ok()) << c.text << ": " << read.status();
    absl::Time expected;
    std::string error;
    ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, c.expected_utc, &expected, &error)) << error;
    EXPECT_EQ(*read, expected) << c.text << " " << c.zone << " gave " << *read;
  }
}

TEST(ParseTimeTextTest, RefusesNonsense) {
  const std::vector<std::string> cases = absl::StrSplit(
      "|now|tomorrow|18:00|2026-12-24|2026-12-24 |2026-12-24 18|2026-12-24 1800|"
      "2026-12-24 18:0|2026-1-2 18:00|24.12.2026 18:00|12/24/2026 18:00|"
      "2026-13-01 00:00|2026-00-01 00:00|2026-02-29 00:00|2026-04-31 00:00|"
      "2026-12-00 00:00|2026-12-24 24:00|2026-12-24 23:60|2026-12-24 23:59:60|"
      "2026-12-24 18:00:|2026-12-24 18:00:5|2026-12-24 18:00:00.|"
      "2026-12-24 18:00:00.0000000001|2026-12-24 18:00pm|2026-12-24 18:00 Z|"
      "2026-12-24T18:00:00+8|2026-12-24T18:00:00+0800|2026-12-24T18:00:00+24:00|"
      "2026-12-24T18:00:00+08:60|2026-12-24T18:00:00+08:00x|2026-12-24T18:00:00*08:00|"
      "0000-01-01T00:00:00Z|10000-01-01T00:00:00Z|-2026-12-24 18:00| 2026-12-24 18:00|"
      "2026-12-24_18:00|1782345600|2026-12-24 0am|2026-12-24 13pm|2026-12-24 6m|2026-12-24 6pmZ|"
      "2026-12-24 6  pm",
      '|');
  ASSERT_EQ(cases.size(), 43u);
  for (const std::string& text : cases) {
    const auto read = ParseTimeText(text, std::nullopt, absl::UTCTimeZone());
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(read.status().message(), text)) << read.status();
  }
}

TEST(LocalZoneTest, ATimeWithoutAnOffsetNeedsATzThatNamesAZone) {
  for (const char* tz : {"", "UTC", "Asia/Shanghai", ":Europe/Berlin", "localtime", "Etc/GMT+8"}) {
    EXPECT_EQ(LocalZoneOf(tz).unknown_tz, "") << tz;
  }
  for (const char* tz :
       {"Asia/Shangai", "EST5EDT4,M3.2.0,M11.1.0", "<-03>3", ":Nowhere", "UTC+8"}) {
    const LocalZone local = LocalZoneOf(tz);
    for (const char* text : {"2026-12-24 18:00", "tomorrow 9am"}) {
      const absl::Status status =
          ParseMomentText(text, std::nullopt, local, absl::UnixEpoch()).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << tz;
      EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("TZ=", tz))) << status;
      EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
      EXPECT_TRUE(ParseMomentText(text, Zone("UTC"), local, absl::UnixEpoch()).ok()) << text;
    }
    for (const char* text : {"2026-12-24 18:00Z", "2026-12-24 18:00+08:00", "+1h", "now"}) {
      EXPECT_TRUE(ParseMomentText(text, std::nullopt, local, absl::UnixEpoch()).ok()) << text;
    }
  }
}

TEST(ParseTimeTextTest, RefusesAnOffsetBesideAZone) {
  const auto read =
      ParseTimeText("2026-12-24T18:00:00Z", Zone("Asia/Shanghai"), absl::UTCTimeZone());
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(read.status().message(), "offset")) << read.status();
}

TEST(ParseTimeTextTest, NamesBothPossibilitiesWhenTheClocksGoForward) {
  const auto read = ParseTimeText("2026-03-29 02:30", Zone("Europe/Berlin"), absl::UTCTimeZone());
  ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(read.status().message());
  EXPECT_TRUE(absl::StrContains(message, "does not exist in Europe/Berlin")) << message;
  const size_t first = message.find("2026-03-29T01:30:00.000+01:00");
  const size_t second = message.find("2026-03-29T03:30:00.000+02:00");
  ASSERT_NE(first, std::string::npos) << message;
  ASSERT_NE(second, std::string::npos) << message;
  EXPECT_LT(first, second);
}

TEST(ParseTimeTextTest, NamesBothPossibilitiesWhenTheClocksGoBack) {
  // The zone is the machine's zone here, and the error names it, too.
  const auto read = ParseTimeText("2026-11-01 01:30:15", std::nullopt, Zone("America/New_York"));
  ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(read.status().message());
  EXPECT_TRUE(absl::StrContains(message, "happens twice in America/New_York")) << message;
  const size_t first = message.find("2026-11-01T01:30:15.000-04:00");
  const size_t second = message.find("2026-11-01T01:30:15.000-05:00");
  ASSERT_NE(first, std::string::npos) << message;
  ASSERT_NE(second, std::string::npos) << message;
  EXPECT_LT(first, second);
  // Each text that the error suggests can be parsed.
  for (const char* text : {"2026-11-01T01:30:15.000-04:00", "2026-11-01T01:30:15.000-05:00"}) {
    EXPECT_TRUE(ParseTimeText(text, std::nullopt, absl::UTCTimeZone()).ok()) << text;
  }
}

// Now is 2026-12-24T23:30:00Z: still the 24th in New York, already the 25th in Shanghai.
constexpr int64_t kNowSeconds = 1'798'155'000;

TEST(ParseMomentTextTest, ReadsWhatPeopleWrite) {
  const std::vector<TimeCase> cases = {
      {"now", "", "2026-12-24T23:30:00Z"},
      {"+30m", "", "2026-12-25T00:00:00Z"},
      {"-1h30m", "", "2026-12-24T22:00:00Z"},
      {"+0s", "", "2026-12-24T23:30:00Z"},
      {"today 9:00", "", "2026-12-24T14:00:00Z"},
      {"today 9:00", "Asia/Shanghai", "2026-12-25T01:00:00Z"},
      {"tomorrow 18:30:15.5", "", "2026-12-25T23:30:15.5Z"},
      {"tomorrow 00:00", "Asia/Shanghai", "2026-12-25T16:00:00Z"},
      {"yesterday 0:00", "", "2026-12-23T05:00:00Z"},
      {"today 9:00Z", "", "2026-12-24T09:00:00Z"},
      {"tomorrow 9am", "Asia/Shanghai", "2026-12-26T01:00:00Z"},
      {"2026-12-24 18:00", "", "2026-12-24T23:00:00Z"},
      {"2026-12-24T18:00:00+08:00", "", "2026-12-24T10:00:00Z"},
  };
  for (const TimeCase& c : cases) {
    std::optional<absl::TimeZone> zone;
    if (*c.zone != '\0') zone = Zone(c.zone);
    const auto read =
        ParseMomentText(c.text, zone, Zone("America/New_York"), absl::FromUnixSeconds(kNowSeconds));
    ASSERT_TRUE(read.ok()) << c.text << ": " << read.status();
    absl::Time expected;
    std::string error;
    ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, c.expected_utc, &expected, &error)) << error;
    EXPECT_EQ(*read, expected) << c.text << " " << c.zone << " gave " << *read;
  }
}

TEST(ParseMomentTextTest, RefusesNonsense) {
  const std::vector<std::string> cases = absl::StrSplit(
      "|Now|soon|+|-|+30|+ 30m|--1h|30m|today|tomorrow|tomorrow9:00|tomorrow  9:00|Tomorrow 9:00|"
      "today 25:00|today 9|monday 9:00|18:00|2026-12-24",
      '|');
  ASSERT_EQ(cases.size(), 19u);
  for (const std::string& text : cases) {
    const auto read = ParseMomentText(text, std::nullopt, absl::UTCTimeZone(), absl::Now());
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"now", "+1h", "-1h", "2026-12-24T18:00:00Z"}) {
    EXPECT_FALSE(ParseMomentText(text, Zone("UTC"), absl::UTCTimeZone(), absl::Now()).ok()) << text;
  }
  // The error shows every form.
  const auto read = ParseMomentText("soon", std::nullopt, absl::UTCTimeZone(), absl::Now());
  EXPECT_TRUE(absl::StrContains(read.status().message(), "\"tomorrow 9am\", now, +30m or -1h"))
      << read.status();
}

TEST(ParseTimeZoneTest, KnowsNamesAndRefusesOthers) {
  EXPECT_TRUE(ParseTimeZone("Asia/Shanghai").ok());
  EXPECT_TRUE(ParseTimeZone("UTC").ok());
  for (const char* name : {"", "Asia/Nowhere", "CEST!", "+08:00", "../../etc/passwd"}) {
    EXPECT_EQ(ParseTimeZone(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

TEST(FormatTest, WritesWhatCanBeRead) {
  EXPECT_EQ(FormatTimeText(absl::FromUnixMillis(1'782'345'600'007), Zone("Asia/Shanghai")),
            "2026-06-25T08:00:00.007+08:00");
  EXPECT_EQ(FormatTimeText(absl::UnixEpoch() + absl::Microseconds(1'999), absl::UTCTimeZone()),
            "1970-01-01T00:00:00.001+00:00");
  EXPECT_EQ(FormatDurationText(absl::ZeroDuration()), "0s");
  EXPECT_EQ(FormatDurationText(absl::Microseconds(999)), "0s");
  EXPECT_EQ(FormatDurationText(absl::Milliseconds(1)), "1ms");
  EXPECT_EQ(FormatDurationText(-absl::Milliseconds(5)), "-5ms");
  EXPECT_EQ(FormatDurationText(absl::Seconds(90)), "1m30s");
  EXPECT_EQ(FormatDurationText(absl::Hours(24 * 8 + 1) + absl::Milliseconds(3)), "8d1h3ms");
  EXPECT_EQ(FormatAgeText(absl::Hours(48) - absl::Milliseconds(1)), "1d23h59m59s999ms");
  EXPECT_EQ(FormatAgeText(absl::Hours(48) + absl::Minutes(59)), "2d");
  EXPECT_EQ(FormatAgeText(absl::Hours(24 * 365 + 5) + absl::Seconds(3)), "365d5h");
  EXPECT_EQ(FormatAgeText(-absl::Hours(50) - absl::Seconds(3)), "-2d2h");
  for (const char* text : {"1m30s", "8d1h3ms", "1ms"}) {
    EXPECT_EQ(FormatDurationText(*ParseDurationText(text)), text);
  }
}

}  // namespace
}  // namespace duetime::cli
