// SPDX-License-Identifier: Apache-2.0
#include "server/access/meter.h"

#include "gtest/gtest.h"

namespace duetime::access {
namespace {

TEST(MeterTest, HoldsTheMeanRate) {
  Meter meter;
  const Meter::Limits limits = {.messages_per_second = 10};
  uint64_t granted = 0;
  constexpr uint64_t kSeconds = 100;
  for (uint64_t ms = 5'000; ms < 5'000 + kSeconds * 1'000; ++ms) {
    if (meter.Take(ms, limits, 1, 0).limit == Meter::Limit::kNone) ++granted;
  }
  // One second's worth more, from the burst.
  EXPECT_GE(granted, 10 * kSeconds);
  EXPECT_LE(granted, 10 * (kSeconds + 1) + 1);
}

TEST(MeterTest, ALargeBatchPassesOnceAndIsPaidForLater) {
  Meter meter;
  const Meter::Limits limits = {.messages_per_second = 10};
  EXPECT_EQ(meter.Take(0, limits, 100, 0).limit, Meter::Limit::kNone);
  const Meter::Verdict second = meter.Take(0, limits, 1, 0);
  EXPECT_EQ(second.limit, Meter::Limit::kMessages);
  EXPECT_EQ(second.wait_ms, 9'000u);
  EXPECT_EQ(meter.Take(8'999, limits, 1, 0).limit, Meter::Limit::kMessages);
  EXPECT_EQ(meter.Take(9'000, limits, 1, 0).limit, Meter::Limit::kNone);
}

TEST(MeterTest, RefusalsLeaveAtARate) {
  Meter meter;
  for (uint64_t i = 0; i <= Meter::kRefusalsPerSecond; ++i)
    EXPECT_EQ(meter.PaceRefusal(10'000), 0u);
  EXPECT_EQ(meter.PaceRefusal(10'000), 5u);
  EXPECT_EQ(meter.PaceRefusal(10'000), 10u);
  EXPECT_EQ(meter.PaceRefusal(10'012), 3u);
  // The last place of the queue is for all that come later.
  uint64_t last = 0;
  for (int i = 0; i < 5'000; ++i) last = meter.PaceRefusal(10'012);
  EXPECT_EQ(last, Meter::kRefusalDelayMsMax);
  EXPECT_LE(meter.PaceRefusal(10'012 + Meter::kRefusalDelayMsMax), 5u);
}

TEST(MeterTest, PendingIsTheLastCountAndWhatCameSince) {
  Meter meter;
  const Meter::Limits limits = {.pending_messages = 10, .pending_bytes = 1'000};
  EXPECT_EQ(meter.Take(0, limits, 6, 60).limit, Meter::Limit::kNone);
  const Meter::Verdict refused = meter.Take(0, limits, 5, 50);
  EXPECT_EQ(refused.limit, Meter::Limit::kPendingMessages);
  EXPECT_EQ(refused.wait_ms, Meter::kPendingRetryMs);
  EXPECT_EQ(meter.Take(0, limits, 1, 941).limit, Meter::Limit::kPendingBytes);

  ASSERT_TRUE(meter.BeginCount(0));
  EXPECT_FALSE(meter.BeginCount(10'000)) << "one count at a time";
  // The count may have seen these two or not, so they stay.
  EXPECT_EQ(meter.Take(1, limits, 2, 20).limit, Meter::Limit::kNone);
  meter.EndCount(2, PendingMeter::Amount{.messages = 3, .bytes = 30});
  EXPECT_EQ(meter.pending().messages, 5u);
  EXPECT_EQ(meter.pending().bytes, 50u);
  EXPECT_FALSE(meter.BeginCount(1'001));
  ASSERT_TRUE(meter.BeginCount(1'002));
  meter.EndCount(1'202, std::nullopt);
  EXPECT_EQ(meter.pending().messages, 5u);
  // A count that took 200 ms is followed by a pause of 4 s.
  EXPECT_FALSE(meter.BeginCount(5'201));
  ASSERT_TRUE(meter.BeginCount(5'202));
  meter.EndCount(5'203, PendingMeter::Amount{.messages = 5, .bytes = 50});
  EXPECT_EQ(meter.pending().messages, 5u);
}

TEST(MeterTest, TakesBothOrNeither) {
  Meter meter;
  const Meter::Limits limits = {.messages_per_second = 1'000, .bytes_per_second = 10};
  EXPECT_EQ(meter.Take(0, limits, 1, 30).limit, Meter::Limit::kNone);
  EXPECT_EQ(meter.Take(0, limits, 1, 1).limit, Meter::Limit::kBytes);
  EXPECT_EQ(meter.Take(0, {}, 1, 1'000'000).limit, Meter::Limit::kNone);
}

}  // namespace
}  // namespace duetime::access
