// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/failure_brake.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

void FailTimes(FailureBrake* brake, uint64_t now_ms, int times) {
  for (int i = 0; i < times; ++i) brake->OnFailure(now_ms);
}

uint64_t TakeAll(FailureBrake* brake, uint64_t now_ms, uint64_t wanted) {
  uint64_t granted = 0;
  while (granted < wanted && brake->Take(now_ms)) ++granted;
  return granted;
}

// A brake of a shard where nobody else fails.
struct Alone {
  explicit Alone(uint32_t rate_per_s) : rate(rate_per_s) { brake.Start(&rate); }
  FailureRate rate;
  FailureBrake brake;
};

TEST(FailureBrakeTest, WithoutARateNothingIsSlowed) {
  FailureBrake never;
  Alone off(0);
  for (FailureBrake* const brake : {&never, &off.brake}) {
    FailTimes(brake, 5, 1'000'000);
    EXPECT_FALSE(brake->slowed());
    EXPECT_TRUE(brake->Take(5));
    EXPECT_EQ(brake->NextMs(5), 5u);
  }
}

TEST(FailureBrakeTest, OneSecondsWorthOfFailuresIsFree) {
  Alone one(100);
  FailTimes(&one.brake, 1'000, 99);
  EXPECT_EQ(TakeAll(&one.brake, 1'000, 5'000), 5'000u);
  EXPECT_EQ(one.rate.slowed(), 0u);
  FailTimes(&one.brake, 1'000, 2);
  EXPECT_TRUE(one.brake.slowed());
  EXPECT_EQ(one.rate.slowed(), 1u);
  EXPECT_FALSE(one.brake.Take(1'000));
}

TEST(FailureBrakeTest, TimePaysForFailuresAtTheRate) {
  Alone one(100);
  for (uint64_t ms = 0; ms < 60'000; ms += 10) {
    one.brake.OnFailure(ms);
    ASSERT_FALSE(one.brake.slowed()) << ms;
  }
  // A little faster than that it adds up.
  uint64_t at_ms = 60'000;
  while (!one.brake.slowed() && at_ms < 120'000) one.brake.OnFailure(at_ms += 9);
  EXPECT_TRUE(one.brake.slowed());
}

TEST(FailureBrakeTest, AsManyFailuresAsSuccessesAreNoReason) {
  Alone one(100);
  for (int i = 0; i < 1'000'000; ++i) {
    one.brake.OnFailure(7);
    one.brake.OnSuccess();
    ASSERT_FALSE(one.brake.slowed());
  }
}

TEST(FailureBrakeTest, WhileSlowedItGrantsTheRate) {
  Alone one(1'000);
  FailTimes(&one.brake, 0, 5'000);
  EXPECT_EQ(one.brake.NextMs(0), 10u) << "what is worth waking up for";
  EXPECT_EQ(TakeAll(&one.brake, 10, 1'000), 10u);
  uint64_t granted = 0;
  // Who comes late loses nothing.
  for (uint64_t ms = 17; ms <= 10'013; ms += 7) {
    const uint64_t now = TakeAll(&one.brake, ms, 1'000);
    granted += now;
    FailTimes(&one.brake, ms, static_cast<int>(now));
  }
  EXPECT_NEAR(static_cast<double>(granted), 10'000.0, 8);
  EXPECT_TRUE(one.brake.slowed());
}

TEST(FailureBrakeTest, OneSecondsWorthOfSuccessesEndsIt) {
  Alone one(100);
  FailTimes(&one.brake, 0, 1'000'000);
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(one.brake.OnSuccess());
  EXPECT_TRUE(one.brake.OnSuccess());
  EXPECT_FALSE(one.brake.slowed());
  EXPECT_EQ(TakeAll(&one.brake, 0, 10'000), 10'000u);
}

TEST(FailureBrakeTest, SoDoesTimeInWhichItDoesNotAsk) {
  Alone one(100);
  FailTimes(&one.brake, 0, 100);
  EXPECT_EQ(TakeAll(&one.brake, 1'050, 1'000), 10u) << "no more is saved up";
  EXPECT_TRUE(one.brake.slowed());
  // One a second is less than its share.
  for (uint64_t ms = 2'000; ms <= 4'000; ms += 1'000) {
    EXPECT_TRUE(one.brake.Take(ms));
    one.brake.OnFailure(ms);
  }
  EXPECT_FALSE(one.brake.slowed());
  EXPECT_EQ(TakeAll(&one.brake, 4'000, 1'000), 1'000u);
}

TEST(FailureBrakeTest, AllThatAreSlowedShareTheRate) {
  constexpr size_t kCount = 36;
  FailureRate rate(1'000);
  std::vector<FailureBrake> brakes(kCount);
  for (FailureBrake& brake : brakes) {
    brake.Start(&rate);
    FailTimes(&brake, 0, 1'000);
  }
  EXPECT_EQ(rate.slowed(), kCount);
  uint64_t granted = 0;
  for (uint64_t ms = 1; ms <= 10'000; ++ms) {
    for (FailureBrake& brake : brakes) {
      const uint64_t now = TakeAll(&brake, ms, 1'000);
      FailTimes(&brake, ms, static_cast<int>(now));
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

TEST(FailureBrakeTest, WhatWasNotHandedOutIsGivenBack) {
  Alone one(10);
  FailTimes(&one.brake, 0, 10);
  EXPECT_FALSE(one.brake.Take(99));
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(one.brake.Take(100));
    one.brake.GiveBack(1);
  }
  EXPECT_TRUE(one.brake.Take(100));
  EXPECT_FALSE(one.brake.Take(100));
}

TEST(FailureBrakeTest, OneASecond) {
  Alone one(1);
  one.brake.OnFailure(500);
  EXPECT_EQ(one.brake.NextMs(500), 1'500u);
  EXPECT_FALSE(one.brake.Take(1'499));
  EXPECT_TRUE(one.brake.Take(1'500));
  EXPECT_FALSE(one.brake.Take(1'500));
  EXPECT_TRUE(one.brake.OnSuccess());
  EXPECT_TRUE(one.brake.Take(1'500));
}

TEST(FailureBrakeTest, WhoDoesNotAskLeavesItsShareToTheOthers) {
  FailureRate rate(1'000);
  std::vector<FailureBrake> brakes(10);
  for (FailureBrake& brake : brakes) {
    brake.Start(&rate);
    FailTimes(&brake, 0, 1'000);
  }
  // One fails on; the others are only looked at.
  uint64_t granted = 0;
  for (uint64_t ms = 1; ms <= 10'000; ++ms) {
    const uint64_t now = TakeAll(&brakes[0], ms, 1'000);
    FailTimes(&brakes[0], ms, static_cast<int>(now));
    granted += now;
    if (ms % FailureBrake::kLookMs != 0) continue;
    for (FailureBrake& brake : brakes) brake.Slowed(ms);
  }
  EXPECT_EQ(rate.slowed(), 1u);
  EXPECT_TRUE(brakes[0].slowed());
  EXPECT_GE(granted, 7'000u);
  EXPECT_LE(granted, 10'000u);
}

// Any rates, orders and gaps: the bound holds, and NextMs is when something is granted and not
// before.
TEST(FailureBrakeTest, NeverMoreThanTheRateWhileSlowed) {
  std::mt19937_64 random(test::TestSeed());
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < test::Scaled(300); ++round) {
    const auto per_s = static_cast<uint32_t>(1 + below(round % 2 == 0 ? 50 : 20'000));
    FailureRate rate(per_s);
    FailureBrake brake;
    brake.Start(&rate);
    // These come and go.
    std::vector<FailureBrake> others(5);
    for (FailureBrake& other : others) other.Start(&rate);
    uint64_t now_ms = below(1'000'000);
    while (!brake.slowed()) brake.OnFailure(now_ms);
    const uint64_t start_ms = now_ms;
    uint64_t granted = 0;
    for (int step = 0; step < 200; ++step) {
      FailureBrake& other = others[below(others.size())];
      if (below(10) == 0) other.Reset();
      if (below(10) == 0) FailTimes(&other, now_ms, static_cast<int>(per_s));
      const uint64_t next_ms = brake.NextMs(now_ms);
      if (!brake.slowed()) break;
      ASSERT_GE(next_ms, now_ms);
      ASSERT_LE(next_ms, now_ms + FailureBrake::kLookMs);
      const bool all_of_it = next_ms < now_ms + FailureBrake::kLookMs;
      if (below(2) == 0) {
        now_ms = next_ms;
        const bool taken = brake.Take(now_ms);
        ASSERT_TRUE(taken || !all_of_it) << "rate " << per_s;
        if (taken) ++granted;
      } else {
        now_ms += below(30);
      }
      const uint64_t wanted = below(2'000);
      for (uint64_t i = 0; i < wanted && brake.Slowed(now_ms) && brake.Take(now_ms); ++i) {
        ++granted;
      }
      if (below(3) == 0) FailTimes(&brake, now_ms, static_cast<int>(below(3)));
      if (!brake.slowed()) break;
      ASSERT_LE(granted, uint64_t{per_s} * (now_ms - start_ms + 100) / 1000 + 2)
          << "rate " << per_s;
    }
  }
}

}  // namespace
}  // namespace duetime::delivery
