// SPDX-License-Identifier: Apache-2.0
#include "server/access/meter.h"

#include "gtest/gtest.h"

namespace duetime::access {
namespace {

TEST(MeterTest, HoldsTheMeanRate) {
  Meter meter;
  const Meter::Rates rates = {.messages_per_second = 10};
  uint64_t granted = 0;
  constexpr uint64_t kSeconds = 100;
  for (uint64_t ms = 5'000; ms < 5'000 + kSeconds * 1'000; ++ms) {
    if (meter.Take(ms, rates, 1, 0).limit == Meter::Limit::kNone) ++granted;
  }
  // One second's worth more, from the burst.
  EXPECT_GE(granted, 10 * kSeconds);
  EXPECT_LE(granted, 10 * (kSeconds + 1) + 1);
}

TEST(MeterTest, ALargeBatchPassesOnceAndIsPaidForLater) {
  Meter meter;
  const Meter::Rates rates = {.messages_per_second = 10};
  EXPECT_EQ(meter.Take(0, rates, 100, 0).limit, Meter::Limit::kNone);
  const Meter::Verdict second = meter.Take(0, rates, 1, 0);
  EXPECT_EQ(second.limit, Meter::Limit::kMessages);
  EXPECT_EQ(second.wait_ms, 9'000u);
  EXPECT_EQ(meter.Take(8'999, rates, 1, 0).limit, Meter::Limit::kMessages);
  EXPECT_EQ(meter.Take(9'000, rates, 1, 0).limit, Meter::Limit::kNone);
}

TEST(MeterTest, TakesBothOrNeither) {
  Meter meter;
  const Meter::Rates rates = {.messages_per_second = 1'000, .bytes_per_second = 10};
  EXPECT_EQ(meter.Take(0, rates, 1, 30).limit, Meter::Limit::kNone);
  EXPECT_EQ(meter.Take(0, rates, 1, 1).limit, Meter::Limit::kBytes);
  EXPECT_EQ(meter.Take(0, {}, 1, 1'000'000).limit, Meter::Limit::kNone);
}

}  // namespace
}  // namespace duetime::access
