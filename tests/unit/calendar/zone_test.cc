// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/zone.h"

#include <optional>
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

TEST(FindZoneTest, KnowsTheNamesOfTheDatabase) {
  for (const char* name :
       {"UTC", "Etc/UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
        "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+5", "EST5EDT"}) {
    const auto zone = FindZone(name, "zone");
    ASSERT_TRUE(zone.ok()) << zone.status();
    EXPECT_EQ(zone->name(), name);
  }
}

TEST(FindZoneTest, UtcHasNoOffset) {
  const auto zone = FindZone("UTC", "zone");
  ASSERT_TRUE(zone.ok());
  EXPECT_EQ(*zone, absl::UTCTimeZone());
}

TEST(FindZoneTest, RefusesOtherText) {
  for (const std::string& name :
       {std::string(), std::string("Europe/Atlantis"), std::string("europe/berlin"),
        std::string("CEST"), std::string("+02:00"), std::string("Fixed/UTC+02:00:00"),
        std::string("UTC+2"), std::string("Europe"), std::string("Europe/"),
        std::string("Europe//Berlin"), std::string(" UTC"), std::string("UTC\0", 4),
        std::string(1'000'000, 'A')}) {
    EXPECT_EQ(FindZone(name, "zone").status().code(), absl::StatusCode::kInvalidArgument)
        << name.substr(0, 100);
  }
}

// The zone library accepts these names, but their meaning depends on the machine.
TEST(FindZoneTest, ReadsNoOtherFile) {
  for (const char* name : {"localtime", "posixrules", "right/UTC", "posix/Europe/Berlin",
                           "/usr/share/zoneinfo/Europe/Berlin", "/etc/localtime", "file:UTC",
                           "../zoneinfo/Europe/Berlin", "Europe/../UTC", "tzdata.zi"}) {
    EXPECT_FALSE(FindZone(name, "zone").ok()) << name;
  }
}

TEST(FindZoneTest, TheErrorNamesTheFieldAndTheName) {
  const absl::Status status = FindZone("Mars/\xff", "recurrence.time_zone").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"Mars/\\xff\" is not a time zone"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("Europe/Berlin"));
  const auto detail = base::GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, "INVALID_TIME_ZONE");
  EXPECT_EQ(detail->field, "recurrence.time_zone");
  EXPECT_THAT(detail->metadata,
              ElementsAre(Pair("time_zone", "Mars/\\xff"), Pair("field", detail->field)));
}

}  // namespace
}  // namespace duetime::calendar
