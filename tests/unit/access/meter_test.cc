// SPDX-License-Identifier: Apache-2.0
#include "server/access/meter.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::access {
namespace {

using Sizes = std::vector<uint64_t>;

Meter::Limit TakeOne(Meter* meter, uint64_t mono_ms, const Meter::Limits& limits, uint64_t size) {
  return meter->Take(mono_ms, limits, Sizes{size}).limit;
}

TEST(MeterTest, HoldsTheMeanRate) {
  Meter meter;
  const Meter::Limits limits = {.messages_per_second = 10};
  uint64_t granted = 0;
  constexpr uint64_t kSeconds = 100;
  for (uint64_t ms = 5'000; ms < 5'000 + kSeconds * 1'000; ++ms) {
    if (TakeOne(&meter, ms, limits, 0) == Meter::Limit::kNone) ++granted;
  }
  // One second's worth more, from the burst.
  EXPECT_GE(granted, 10 * kSeconds);
  EXPECT_LE(granted, 10 * (kSeconds + 1) + 1);
}

TEST(MeterTest, ALargeBatchPassesOnceAndIsPaidForLater) {
  Meter meter;
  const Meter::Limits limits = {.messages_per_second = 10};
  EXPECT_EQ(meter.Take(0, limits, Sizes(100)).limit, Meter::Limit::kNone);
  const Meter::Verdict second = meter.Take(0, limits, Sizes(2));
  EXPECT_EQ(second.limit, Meter::Limit::kMessages);
  EXPECT_EQ(second.wait_ms, 9'000u);
  EXPECT_EQ(second.taken.messages, 0u);
  EXPECT_EQ(TakeOne(&meter, 8'999, limits, 0), Meter::Limit::kMessages);
  EXPECT_EQ(TakeOne(&meter, 9'000, limits, 0), Meter::Limit::kNone);
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
  EXPECT_EQ(meter.Take(0, limits, Sizes(6, 10)).limit, Meter::Limit::kNone);
  EXPECT_EQ(TakeOne(&meter, 0, limits, 941), Meter::Limit::kPendingBytes);

  ASSERT_TRUE(meter.BeginCount(0));
  EXPECT_FALSE(meter.BeginCount(10'000)) << "one count at a time";
  // The count may have seen these two or not, so they stay.
  EXPECT_EQ(meter.Take(1, limits, Sizes(2, 10)).limit, Meter::Limit::kNone);
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
  EXPECT_EQ(TakeOne(&meter, 0, limits, 30), Meter::Limit::kNone);
  EXPECT_EQ(TakeOne(&meter, 0, limits, 1), Meter::Limit::kBytes);
  EXPECT_EQ(TakeOne(&meter, 0, {}, 1'000'000), Meter::Limit::kNone);
}

TEST(MeterTest, TakesInOrderUntilALimitRefuses) {
  const struct {
    const char* what;
    Meter::Limits limits;
    Sizes sizes;
    Meter::Limit limit;
    uint64_t taken;
  } kCases[] = {
      {"no limit", {}, Sizes(8, 10), Meter::Limit::kNone, 8},
      {"room for all", {.pending_messages = 8}, Sizes(8, 10), Meter::Limit::kNone, 8},
      {"messages", {.pending_messages = 5}, Sizes(8, 10), Meter::Limit::kPendingMessages, 5},
      {"bytes", {.pending_bytes = 35}, Sizes(8, 10), Meter::Limit::kPendingBytes, 3},
      {"the order holds", {.pending_bytes = 35}, {10, 30, 5}, Meter::Limit::kPendingBytes, 1},
      {"the first one", {.pending_bytes = 5}, {10, 1}, Meter::Limit::kPendingBytes, 0},
      {"a rate takes all", {.messages_per_second = 5}, Sizes(8, 10), Meter::Limit::kNone, 8},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.what);
    Meter meter;
    const Meter::Verdict verdict = meter.Take(0, one.limits, one.sizes);
    EXPECT_EQ(verdict.limit, one.limit);
    EXPECT_EQ(verdict.wait_ms, one.limit == Meter::Limit::kNone ? 0 : Meter::kPendingRetryMs);
    EXPECT_EQ(verdict.taken.messages, one.taken);
    EXPECT_EQ(meter.pending().messages, one.taken);
    EXPECT_EQ(meter.pending().bytes, verdict.taken.bytes);
  }
}

}  // namespace
}  // namespace duetime::access
