// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/pace/startup_ramp.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

// Thousandths of messages that a ramp gives from its start to `at_ms` after it, counted out.
uint64_t GivenBy(uint64_t rate, uint64_t at_ms) {
  uint64_t sum = 0;
  for (; at_ms >= 1000; at_ms -= 1000, rate *= 2) sum += rate * 1000;
  return sum + rate * at_ms;
}

TEST(StartupRampTest, GrantsAllWithoutAStartOrARate) {
  StartupRamp never;
  EXPECT_EQ(never.Take(5, 1'000'000), 1'000'000u);
  EXPECT_EQ(never.NextMs(5), 5u);
  EXPECT_FALSE(never.active());
  StartupRamp off;
  off.Start(100, 0);
  EXPECT_EQ(off.Take(100, kAll), kAll);
  EXPECT_EQ(off.NextMs(100), 100u);
  EXPECT_FALSE(off.active());
}

TEST(StartupRampTest, DoublesEachSecondAndEndsAfterTen) {
  StartupRamp ramp;
  constexpr uint64_t kStart = 5'000;
  constexpr uint32_t kRate = 20'000;
  ramp.Start(kStart, kRate);
  EXPECT_EQ(ramp.Take(kStart, kAll), 2'000u) << "one bucket, full at the start";
  EXPECT_EQ(ramp.Take(kStart, kAll), 0u);
  for (uint64_t second = 0; second < StartupRamp::kSeconds; ++second) {
    uint64_t granted = 0;
    for (uint64_t ms = 1; ms <= 1000; ++ms) {
      const uint64_t at_ms = kStart + second * 1000 + ms;
      if (at_ms == kStart + 10'000) break;
      granted += ramp.Take(at_ms, kAll);
    }
    const uint64_t rate = uint64_t{kRate} << second;
    EXPECT_GE(granted, rate - rate / 1000) << second;
    EXPECT_LE(granted, rate) << second;
  }
  EXPECT_TRUE(ramp.active());
  EXPECT_EQ(ramp.Take(kStart + 10'000, kAll), kAll);
  EXPECT_FALSE(ramp.active());
  ramp.Start(kStart + 20'000, kRate);
  EXPECT_EQ(ramp.Take(kStart + 20'000, kAll), 2'000u) << "a second ramp is like the first";
}

TEST(StartupRampTest, WhatIsNotTakenIsKeptForAHundredMillisecondsOnly) {
  StartupRamp ramp;
  ramp.Start(0, 1'000);
  EXPECT_EQ(ramp.Take(0, 100), 100u);
  EXPECT_EQ(ramp.Take(50, 10), 10u);
  EXPECT_EQ(ramp.Take(50, 100), 40u);
  EXPECT_EQ(ramp.Take(4'500, kAll), 1'600u);
}

TEST(StartupRampTest, ASlowRampStillMoves) {
  StartupRamp ramp;
  ramp.Start(0, 1);
  EXPECT_EQ(ramp.Take(0, 5), 1u);
  EXPECT_EQ(ramp.Take(999, 5), 0u);
  EXPECT_EQ(ramp.NextMs(999), 1'000u);
  EXPECT_EQ(ramp.Take(1'000, 5), 1u);
  EXPECT_EQ(ramp.NextMs(1'000), 1'500u);
  EXPECT_EQ(ramp.Take(1'500, 5), 1u);
}

TEST(StartupRampTest, TheGreatestRateDoesNotOverflow) {
  StartupRamp ramp;
  ramp.Start(0, UINT32_MAX);
  EXPECT_EQ(ramp.Take(9'999, kAll), (uint64_t{UINT32_MAX} << 9) / 10);
  EXPECT_EQ(ramp.NextMs(9'999), 10'000u);
}

// Any ramp, asked at any times for any numbers.
TEST(StartupRampTest, NeverGivesMoreThanItsRampAndKeepsItsWordOnWhen) {
  std::mt19937_64 random(test::TestSeed());
  for (int64_t run = test::Scaled(400); run > 0; --run) {
    const auto rate = static_cast<uint32_t>(1 + (random() >> (40 + random() % 24)));
    const uint64_t start = random() % 1'000'000;
    StartupRamp ramp;
    ramp.Start(start, rate);
    struct Grant {
      uint64_t at_ms = 0;
      uint64_t count = 0;
    };
    std::vector<Grant> grants;
    uint64_t at_ms = 0;
    while (at_ms < 10'000) {
      // A third of the time greedy, else as it comes.
      const uint64_t wanted = random() % 3 == 0 ? kAll : random() % (rate / 10 + 2);
      grants.push_back({at_ms, ramp.Take(start + at_ms, wanted)});
      ASSERT_LE(grants.back().count, wanted);
      const uint64_t next_ms = ramp.NextMs(start + at_ms) - start;
      ASSERT_GE(next_ms, at_ms);
      ASSERT_LE(next_ms, 10'000u);
      // At that time there is what was promised, and not a millisecond before.
      const auto granted_at = [&ramp, start](uint64_t when_ms) {
        StartupRamp copy = ramp;
        return copy.Take(start + when_ms, kAll);
      };
      const auto worth = [rate](uint64_t when_ms) {
        return std::max<uint64_t>(1, (uint64_t{rate} << (when_ms / 1000)) / 100);
      };
      ASSERT_GE(granted_at(next_ms), worth(at_ms));
      if (next_ms > at_ms) {
        ASSERT_LE(granted_at(next_ms - 1), worth(at_ms));
      }
      at_ms = random() % 2 == 0 ? std::max(next_ms, at_ms + 1) : at_ms + random() % 300;
    }
    for (size_t first = 0; first < grants.size(); ++first) {
      uint64_t sum = 0;
      for (size_t last = first; last < grants.size(); ++last) {
        sum += grants[last].count;
        const uint64_t end_ms = grants[last].at_ms;
        const uint64_t bucket = std::max<uint64_t>(1000, (uint64_t{rate} << (end_ms / 1000)) * 100);
        ASSERT_LE(sum * 1000, GivenBy(rate, end_ms) - GivenBy(rate, grants[first].at_ms) + bucket)
            << "rate " << rate << " from " << grants[first].at_ms << " to " << end_ms;
      }
    }
  }
}

}  // namespace
}  // namespace duetime::delivery
