// SPDX-License-Identifier: Apache-2.0
#include "server/messages/minute_limits.h"

#include "server/base/error.h"
#include "storage/time_units.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::TopicSettings;
using storage::kMinuteMs;

class MinuteLimitsTest : public MessagesFixture {
 protected:
  void SetUp() override {
    ASSERT_EQ(kStart % kMinuteMs, 0u);
    // Minutes 0 and 1 hold two messages each, minute 2 holds one.
    for (const uint64_t minute : {0u, 0u, 1u, 1u, 2u}) Scheduled(minute * kMinuteMs + 1'000);
  }
  // Returns the message's delay, or the reason of the refusal.
  std::string Place(MinuteLimits::Request request) {
    MinuteLimits::Placement placement;
    const absl::Status status = minute_limits_.Place(now_, kTopic, request, &placement);
    if (!status.ok()) return base::GetErrorDetail(status)->reason;
    return std::to_string(placement.deliver_ms - kStart) + (placement.over ? " over" : "");
  }
};

TEST_F(MinuteLimitsTest, ATopicWithoutALimitHasRoom) {
  EXPECT_FALSE(minute_limits_.Has(kTopic));
  EXPECT_EQ(Place({.deliver_ms = kStart + 1'000}), "1000");
}

TEST_F(MinuteLimitsTest, PlacesAsThePolicySays) {
  struct Case {
    TopicSettings::BucketPolicy policy;
    uint64_t max;
    uint32_t spread_minutes;
    MinuteLimits::Request request;
    std::string expected;
  };
  const Case cases[] = {
      {TopicSettings::WARN, 3, 0, {.deliver_ms = kStart + 5}, "5"},
      {TopicSettings::WARN, 2, 0, {.deliver_ms = kStart + 5}, "5 over"},
      {TopicSettings::REFUSE, 2, 0, {.deliver_ms = kStart + 5}, "MINUTE_FULL"},
      {TopicSettings::REFUSE, 2, 0, {.deliver_ms = kStart + 120'005}, "120005"},
      // A pending message needs no room in its own minute.
      {TopicSettings::REFUSE, 2, 0, {.deliver_ms = kStart + 5, .present_ms = kStart + 9}, "5"},
      // Nor does one that keeps its time, but it adds to its minute.
      {TopicSettings::REFUSE,
       2,
       0,
       {.deliver_ms = kStart + 5, .present_ms = kStart + 60'009, .keeps_time = true},
       "5"},
      {TopicSettings::SPREAD,
       2,
       9,
       {.deliver_ms = kStart + 5, .present_ms = kStart + 60'009, .keeps_time = true},
       "5"},
      {TopicSettings::WARN,
       2,
       0,
       {.deliver_ms = kStart + 5, .present_ms = kStart + 60'009, .keeps_time = true},
       "5 over"},
      // A message that is due needs no room.
      {TopicSettings::REFUSE, 2, 0, {.deliver_ms = kStart}, "0"},
      {TopicSettings::SPREAD, 2, 2, {.deliver_ms = kStart + 5}, "120005"},
      {TopicSettings::SPREAD, 2, 1, {.deliver_ms = kStart + 5}, "MINUTE_FULL"},
      {TopicSettings::SPREAD, 1, 3, {.deliver_ms = kStart + 5}, "180005"},
      {TopicSettings::SPREAD,
       2,
       9,
       {.deliver_ms = kStart + 5, .latest_ms = kStart + 119'000},
       "MINUTE_FULL"},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    LimitMinutes(cases[i].max, cases[i].policy, cases[i].spread_minutes);
    EXPECT_EQ(Place(cases[i].request), cases[i].expected);
  }
  LimitMinutes(0, TopicSettings::WARN);
  EXPECT_FALSE(minute_limits_.Has(kTopic));
}

TEST_F(MinuteLimitsTest, WarnsOfAMinuteThatIsOverItsLimit) {
  LimitMinutes(1, TopicSettings::WARN);
  EXPECT_TRUE(minute_limits_.Over(now_, kTopic, kStart + 1'000));
  EXPECT_FALSE(minute_limits_.Over(now_, kTopic, kStart + 121'000));
  EXPECT_FALSE(minute_limits_.Over(now_, kTopic, kStart));
  LimitMinutes(1, TopicSettings::REFUSE);
  EXPECT_FALSE(minute_limits_.Over(now_, kTopic, kStart + 1'000));
}

TEST_F(MinuteLimitsTest, AShardHasAnEqualShareRoundedUp) {
  MinuteLimits limits(2, &writer_);
  LimitMinutes(3, TopicSettings::REFUSE, 0, &limits);
  MinuteLimits::Placement placement;
  EXPECT_FALSE(limits.Place(now_, kTopic, {.deliver_ms = kStart + 5}, &placement).ok());
  EXPECT_TRUE(limits.Place(now_, kTopic, {.deliver_ms = kStart + 120'005}, &placement).ok());
}

TEST_F(MinuteLimitsTest, AStoreThatCannotBeReadIsAnError) {
  LimitMinutes(2, TopicSettings::REFUSE);
  store_.FailReads(absl::DataLossError("disk"));
  EXPECT_EQ(Place({.deliver_ms = kStart + 600'005}), "STORAGE_FAILED");
}

}  // namespace
}  // namespace duetime::messages
