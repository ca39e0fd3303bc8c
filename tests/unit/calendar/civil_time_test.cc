// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/civil_time.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "tests/unit/calendar/calendar_testing.h"

namespace duetime::calendar {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

CivilTime Civil(const std::string& text) {
  const auto civil = ParseCivilTime(text, "civil_time");
  EXPECT_TRUE(civil.ok()) << civil.status();
  return civil.value_or(CivilTime{});
}

// Resolves the civil time of `text` in the zone and returns it with its offset.
std::string ResolvedText(const std::string& text, const std::string& zone) {
  return Text(Resolve(Civil(text), Zone(zone)).utc_ms, Zone(zone));
}

Occurs HowOften(const std::string& text, const std::string& zone) {
  return Resolve(Civil(text), Zone(zone)).occurs;
}

TEST(ParseCivilTimeTest, ReadsMinutesSecondsAndMilliseconds) {
  const absl::CivilSecond evening(2026, 12, 24, 18, 5, 0);
  EXPECT_EQ(Civil("2026-12-24T18:05").second, evening);
  EXPECT_EQ(Civil("2026-12-24T18:05:09").second, evening + 9);
  EXPECT_EQ(Civil("2026-12-24T18:05:09").millisecond, 0);
  EXPECT_EQ(Civil("2026-12-24T18:05:09.087").second, evening + 9);
  EXPECT_EQ(Civil("2026-12-24T18:05:09.087").millisecond, 87);
  EXPECT_EQ(Civil("0001-01-01T00:00").second, absl::CivilSecond(1, 1, 1));
  EXPECT_EQ(Civil("9999-12-31T23:59:59.999").second, absl::CivilSecond(9999, 12, 31, 23, 59, 59));
  EXPECT_EQ(Civil("2028-02-29T00:00").second, absl::CivilSecond(2028, 2, 29));
}

TEST(ParseCivilTimeTest, RefusesAnythingElse) {
  for (const char* text : {"",
                           "2026-12-24",
                           "2026-12-24T18",
                           "2026-12-24 18:05",
                           "2026-12-24t18:05",
                           "2026-12-24T18:05Z",
                           "2026-12-24T18:05+01:00",
                           "2026-12-24T18:05:09Z",
                           "2026-12-24T18:05:09.08",
                           "2026-12-24T18:05:09.0870",
                           "2026-12-24T18:05:09,087",
                           "2026-12-24T18:05:",
                           "2026-12-24T18:05:9",
                           "2026-1-24T18:05:09",
                           " 2026-12-24T18:05",
                           "2026-12-24T18:05 ",
                           "+026-12-24T18:05",
                           "2026-12-24T18:-5",
                           "2026-12-24T18:05:09.-87",
                           "12026-12-24T18:05"}) {
    EXPECT_FALSE(ParseCivilTime(text, "civil_time").ok()) << text;
  }
}

TEST(ParseCivilTimeTest, RefusesDatesThatDoNotExist) {
  for (const char* text :
       {"0000-01-01T00:00", "2026-00-01T00:00", "2026-13-01T00:00", "2026-01-00T00:00",
        "2026-04-31T00:00", "2026-02-29T00:00", "2100-02-29T00:00", "2026-01-01T24:00",
        "2026-01-01T00:60", "2026-12-31T23:59:60"}) {
    const absl::Status status = ParseCivilTime(text, "civil_time").status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("no such date")) << text;
  }
}

TEST(ParseCivilTimeTest, TheErrorNamesTheFieldAndTheText) {
  const absl::Status status = ParseCivilTime("2026-12-24T18:05Z\n", "local_time").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "\"2026-12-24T18:05Z\\n\" is not a civil time: write YYYY-MM-DDTHH:MM, then :SS or "
            ":SS.mmm if wanted, and no offset");
  const auto detail = base::GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "INVALID_CIVIL_TIME");
  EXPECT_EQ(detail->field, "local_time");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("civil_time", "2026-12-24T18:05Z\\n"),
                                            Pair("field", detail->field)));
}

TEST(ResolveTest, OnceIsTheOneMoment) {
  EXPECT_EQ(Resolve(Civil("2026-07-01T12:00:00.250"), Zone("Europe/Berlin")).utc_ms,
            Ms("2026-07-01T10:00:00.250Z"));
  EXPECT_EQ(ResolvedText("2026-01-01T12:00", "Asia/Kolkata"), "2026-01-01T12:00:00+05:30");
  EXPECT_EQ(HowOften("2026-07-01T12:00", "Europe/Berlin"), Occurs::kOnce);
  // Times before the epoch work, too.
  EXPECT_EQ(Resolve(Civil("1969-12-31T23:59:59.900"), absl::UTCTimeZone()).utc_ms, -100);
}

TEST(ResolveTest, InAGapTheOffsetBeforeItHolds) {
  EXPECT_EQ(ResolvedText("2026-03-29T02:30", "Europe/Berlin"), "2026-03-29T03:30:00+02:00");
  EXPECT_EQ(ResolvedText("2026-03-29T02:00", "Europe/Berlin"), "2026-03-29T03:00:00+02:00");
  EXPECT_EQ(ResolvedText("2026-03-08T02:30:15.500", "America/New_York"),
            "2026-03-08T03:30:15.5-04:00");
  EXPECT_EQ(ResolvedText("2026-10-04T02:15", "Australia/Lord_Howe"), "2026-10-04T02:45:00+11:00");
  EXPECT_EQ(ResolvedText("2011-12-30T12:00", "Pacific/Apia"), "2011-12-31T12:00:00+14:00");
  EXPECT_EQ(HowOften("2026-03-29T02:30", "Europe/Berlin"), Occurs::kNever);
  EXPECT_EQ(HowOften("2011-12-30T12:00", "Pacific/Apia"), Occurs::kNever);
  // The edges of a gap are outside it.
  EXPECT_EQ(HowOften("2026-03-29T01:59:59.999", "Europe/Berlin"), Occurs::kOnce);
  EXPECT_EQ(HowOften("2026-03-29T03:00", "Europe/Berlin"), Occurs::kOnce);
}

TEST(ResolveTest, InAnOverlapItIsTheFirst) {
  EXPECT_EQ(ResolvedText("2026-10-25T02:30", "Europe/Berlin"), "2026-10-25T02:30:00+02:00");
  EXPECT_EQ(ResolvedText("2026-11-01T01:00", "America/New_York"), "2026-11-01T01:00:00-04:00");
  EXPECT_EQ(ResolvedText("2026-04-05T01:45", "Australia/Lord_Howe"), "2026-04-05T01:45:00+11:00");
  EXPECT_EQ(HowOften("2026-10-25T02:30", "Europe/Berlin"), Occurs::kTwice);
  EXPECT_EQ(HowOften("2026-10-25T02:00", "Europe/Berlin"), Occurs::kTwice);
  EXPECT_EQ(HowOften("2026-10-25T03:00", "Europe/Berlin"), Occurs::kOnce);
  EXPECT_EQ(HowOften("2026-04-05T01:29", "Australia/Lord_Howe"), Occurs::kOnce);
  EXPECT_EQ(HowOften("2026-04-05T01:30", "Australia/Lord_Howe"), Occurs::kTwice);
}

TEST(FormatCivilTimeTest, ShowsLocalTime) {
  EXPECT_EQ(FormatCivilTime(Ms("2026-07-01T10:00:00Z"), Zone("Europe/Berlin")),
            "2026-07-01T12:00:00");
  EXPECT_EQ(FormatCivilTime(Ms("2026-07-01T10:00:00.050Z"), Zone("Asia/Kolkata")),
            "2026-07-01T15:30:00.050");
  EXPECT_EQ(FormatCivilTime(-100, absl::UTCTimeZone()), "1969-12-31T23:59:59.900");
}

TEST(FormatCivilTimeTest, IsReadBack) {
  for (const char* text : {"2026-12-24T18:05:00", "0001-01-01T00:00:00", "9999-12-31T23:59:59.999",
                           "2026-10-25T02:30:00.001"}) {
    const ResolvedTime time = Resolve(Civil(text), Zone("Europe/Berlin"));
    EXPECT_EQ(FormatCivilTime(time.utc_ms, Zone("Europe/Berlin")), text);
  }
}

}  // namespace
}  // namespace duetime::calendar
