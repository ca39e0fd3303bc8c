// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/pace/failure_throttle.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

void FailTimes(FailureThrottle* throttle, uint64_t now_ms, int times) {
  for (int i = 0; i < times; ++i) throttle->OnFailure(now_ms);
}

uint64_t TakeAll(FailureThrottle* throttle, uint64_t now_ms, uint64_t wanted) {
  uint64_t granted = 0;
  while (granted < wanted && throttle->Take(now_ms)) ++granted;
  return granted;
}

// A throttle of a shard where nobody else fails.
struct Alone {
  explicit Alone(uint32_t rate_per_s) : rate(rate_per_s) { throttle.Start(&rate); }
  FailureRate rate;
  FailureThrottle throttle;
};

TEST(FailureThrottleTest, WithoutARateNothingIsSlowed) {
  FailureThrottle never;
  Alone off(0);
  for (FailureThrottle* const throttle : {&never, &off.throttle}) {
    FailTimes(throttle, 5, 1'000'000);
    EXPECT_FALSE(throttle->slowed());
    EXPECT_TRUE(throttle->Take(5));
    EXPECT_EQ(throttle->NextMs(5), 5u);
  }
}

TEST(FailureThrottleTest, OneSecondsWorthOfFailuresIsFree) {
  Alone one(100);
  FailTimes(&one.throttle, 1'000, 99);
  EXPECT_EQ(TakeAll(&one.throttle, 1'000, 5'000), 5'000u);
  EXPECT_EQ(one.rate.slowed(), 0u);
  FailTimes(&one.throttle, 1'000, 2);
  EXPECT_TRUE(one.throttle.slowed());
  EXPECT_EQ(one.rate.slowed(), 1u);
  EXPECT_FALSE(one.throttle.Take(1'000));
}

TEST(FailureThrottleTest, TimePaysForFailuresAtTheRate) {
  Alone one(100);
  for (uint64_t ms = 0; ms < 60'000; ms += 10) {
    one.throttle.OnFailure(ms);
    ASSERT_FALSE(one.throttle.slowed()) << ms;
  }
  // A little faster than that it adds up.
  uint64_t at_ms = 60'000;
  while (!one.throttle.slowed() && at_ms < 120'000) one.throttle.OnFailure(at_ms += 9);
  EXPECT_TRUE(one.throttle.slowed());
}

TEST(FailureThrottleTest, AsManyFailuresAsSuccessesAreNoReason) {
  Alone one(100);
  for (int i = 0; i < 1'000'000; ++i) {
    one.throttle.OnFailure(7);
    one.throttle.OnSuccess();
    ASSERT_FALSE(one.throttle.slowed());
  }
}

TEST(FailureThrottleTest, WhileSlowedItGrantsTheRate) {
  Alone one(1'000);
  FailTimes(&one.throttle, 0, 5'000);
  EXPECT_EQ(one.throttle.NextMs(0), 10u) << "what is worth waking up for";
  EXPECT_EQ(TakeAll(&one.throttle, 10, 1'000), 10u);
  uint64_t granted = 0;
  // Who comes late loses nothing.
  for (uint64_t ms = 17; ms <= 10'013; ms += 7) {
    const uint64_t now = TakeAll(&one.throttle, ms, 1'000);
    granted += now;
    FailTimes(&one.throttle, ms, static_cast<int>(now));
  }
  EXPECT_NEAR(static_cast<double>(granted), 10'000.0, 8);
  EXPECT_TRUE(one.throttle.slowed());
}

TEST(FailureThrottleTest, OneSecondsWorthOfSuccessesEndsIt) {
  Alone one(100);
  FailTimes(&one.throttle, 0, 1'000'000);
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(one.throttle.OnSuccess());
  EXPECT_TRUE(one.throttle.OnSuccess());
  EXPECT_FALSE(one.throttle.slowed());
  EXPECT_EQ(TakeAll(&one.throttle, 0, 10'000), 10'000u);
}

TEST(FailureThrottleTest, SoDoesTimeInWhichItDoesNotAsk) {
  Alone one(100);
  FailTimes(&one.throttle, 0, 100);
  EXPECT_EQ(TakeAll(&one.throttle, 1'050, 1'000), 10u) << "no more is saved up";
  EXPECT_TRUE(one.throttle.slowed());
  // One a second is less than its share.
  for (uint64_t ms = 2'000; ms <= 4'000; ms += 1'000) {
    EXPECT_TRUE(one.throttle.Take(ms));
    one.throttle.OnFailure(ms);
  }
  EXPECT_FALSE(one.throttle.slowed());
  EXPECT_EQ(TakeAll(&one.throttle, 4'000, 1'000), 1'000u);
}

TEST(FailureThrottleTest, AllThatAreSlowedShareTheRate) {
  constexpr size_t kCount = 36;
  FailureRate rate(1'000);
  std::vector<FailureThrottle> brakes(kCount);
  for (FailureThrottle& throttle : brakes) {
    throttle.Start(&rate);
    FailTimes(&throttle, 0, 1'000);
  }
  EXPECT_EQ(rate.slowed(), kCount);
  uint64_t granted = 0;
  for (uint64_t ms = 1; ms <= 10'000; ++ms) {
    for (FailureThrottle& throttle : brakes) {
      const uint64_t now = TakeAll(&throttle, ms, 1'000);
      FailTimes(&throttle, ms, static_cast<int>(now));
      granted += now;
    }
  }
  EXPECT_LE(granted, 10'000u);
  EXPECT_GE(granted, 9'900u);
  // One that is over leaves its share to the others.
  EXPECT_GT(brakes[1].NextMs(10'000), 10'000u);
  for (size_t i = 2; i < kCount; ++i) brakes[i].Reset();
  brakes[0].Reset();
  EXPECT_EQ(rate.slowed(), 1u);
  EXPECT_LE(brakes[1].NextMs(10'010), 10'020u);
}

TEST(FailureThrottleTest, WhatWasNotHandedOutIsGivenBack) {
  Alone one(10);
  FailTimes(&one.throttle, 0, 10);
  EXPECT_FALSE(one.throttle.Take(99));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(one.throttle.Take(100));
    one.throttle.GiveBack(1);
  }
  EXPECT_TRUE(one.throttle.Take(100));
  EXPECT_FALSE(one.throttle.Take(100));
}

TEST(FailureThrottleTest, OneASecond) {
  Alone one(1);
  one.throttle.OnFailure(500);
  EXPECT_EQ(one.throttle.NextMs(500), 1'500u);
  EXPECT_FALSE(one.throttle.Take(1'499));
  EXPECT_TRUE(one.throttle.Take(1'500));
  EXPECT_FALSE(one.throttle.Take(1'500));
  EXPECT_TRUE(one.throttle.OnSuccess());
  EXPECT_TRUE(one.throttle.Take(1'500));
}

TEST(FailureThrottleTest, WhoDoesNotAskLeavesItsShareToTheOthers) {
  FailureRate rate(1'000);
  std::vector<FailureThrottle> brakes(10);
  for (FailureThrottle& throttle : brakes) {
    throttle.Start(&rate);
    FailTimes(&throttle, 0, 1'000);
  }
  // One fails on; the others are only looked at.
  uint64_t granted = 0;
  for (uint64_t ms = 1; ms <= 10'000; ++ms) {
    const uint64_t now = TakeAll(&brakes[0], ms, 1'000);
    FailTimes(&brakes[0], ms, static_cast<int>(now));
    granted += now;
    if (ms % FailureThrottle::kCheckMs != 0) continue;
    for (FailureThrottle& throttle : brakes) throttle.Slowed(ms);
  }
  EXPECT_EQ(rate.slowed(), 1u);
  EXPECT_TRUE(brakes[0].slowed());
  EXPECT_GE(granted, 7'000u);
  EXPECT_LE(granted, 10'000u);
}

// Any rates, orders and gaps: the bound holds, and NextMs is when something is granted and not
// before.
TEST(FailureThrottleTest, NeverMoreThanTheRateWhileSlowed) {
  std::mt19937_64 random(test::TestSeed());
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < test::Scaled(300); ++round) {
    const auto per_s = static_cast<uint32_t>(1 + below(round % 2 == 0 ? 50 : 20'000));
    FailureRate rate(per_s);
    FailureThrottle throttle;
    throttle.Start(&rate);
    // These come and go.
    std::vector<FailureThrottle> others(5);
    for (FailureThrottle& other : others) other.Start(&rate);
    uint64_t now_ms = below(1'000'000);
    while (!throttle.slowed()) throttle.OnFailure(now_ms);
    const uint64_t start_ms = now_ms;
    uint64_t granted = 0;
    for (int step = 0; step < 200; ++step) {
      FailureThrottle& other = others[below(others.size())];
      if (below(10) == 0) other.Reset();
      if (below(10) == 0) FailTimes(&other, now_ms, static_cast<int>(per_s));
      const uint64_t next_ms = throttle.NextMs(now_ms);
      if (!throttle.slowed()) break;
      ASSERT_GE(next_ms, now_ms);
      ASSERT_LE(next_ms, now_ms + FailureThrottle::kCheckMs);
      const bool all_of_it = next_ms < now_ms + FailureThrottle::kCheckMs;
      if (below(2) == 0) {
        now_ms = next_ms;
        const bool taken = throttle.Take(now_ms);
        ASSERT_TRUE(taken || !all_of_it) << "rate " << per_s;
        if (taken) ++granted;
      } else {
        now_ms += below(30);
      }
      const uint64_t wanted = below(2'000);
      for (uint64_t i = 0; i < wanted && throttle.Slowed(now_ms) && throttle.Take(now_ms); ++i) {
        ++granted;
      }
      if (below(3) == 0) FailTimes(&throttle, now_ms, static_cast<int>(below(3)));
      if (!throttle.slowed()) break;
      ASSERT_LE(granted, uint64_t{per_s} * (now_ms - start_ms + 100) / 1000 + 2)
          << "rate " << per_s;
    }
  }
}

}  // namespace
}  // namespace duetime::delivery
