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

TEST(FailureBrakeTest, WithoutARateNothingIsSlowed) {
  FailureBrake brake;
  FailTimes(&brake, 5, 1'000'000);
  EXPECT_FALSE(brake.braking());
  EXPECT_TRUE(brake.Take(5));
  EXPECT_EQ(brake.NextMs(5), 5u);
}

TEST(FailureBrakeTest, OneSecondsWorthOfFailuresIsFree) {
  FailureBrake brake(100);
  FailTimes(&brake, 1'000, 99);
  EXPECT_EQ(TakeAll(&brake, 1'000, 5'000), 5'000u);
  EXPECT_TRUE(brake.OnFailure(1'000)) << "from now on";
  EXPECT_FALSE(brake.OnFailure(1'000)) << "it was before";
  EXPECT_TRUE(brake.braking());
  EXPECT_FALSE(brake.Take(1'000));
}

TEST(FailureBrakeTest, FailuresAreForgottenAtTheRateUntilThen) {
  FailureBrake brake(100);
  for (uint64_t ms = 0; ms < 60'000; ms += 10) {
    brake.OnFailure(ms);
    ASSERT_FALSE(brake.braking()) << ms;
  }
  // A little faster than that it adds up.
  uint64_t at_ms = 60'000;
  while (!brake.braking() && at_ms < 120'000) brake.OnFailure(at_ms += 9);
  EXPECT_TRUE(brake.braking());
}

TEST(FailureBrakeTest, AsManyFailuresAsSuccessesAreNoReason) {
  FailureBrake brake(100);
  for (int i = 0; i < 1'000'000; ++i) {
    brake.OnFailure(7);
    brake.OnSuccess();
    ASSERT_FALSE(brake.braking());
  }
}

TEST(FailureBrakeTest, WhileSlowedItGrantsTheRate) {
  FailureBrake brake(1'000);
  FailTimes(&brake, 0, 5'000);
  EXPECT_EQ(brake.NextMs(0), 10u) << "what is worth waking up for";
  EXPECT_EQ(TakeAll(&brake, 10, 1'000), 10u);
  uint64_t granted = 0;
  for (uint64_t ms = 11; ms <= 10'010; ++ms) {
    const uint64_t now = TakeAll(&brake, ms, 1'000);
    granted += now;
    FailTimes(&brake, ms, static_cast<int>(now));
  }
  EXPECT_EQ(granted, 10'000u);
  EXPECT_EQ(TakeAll(&brake, 1'000'000, 1'000), 10u) << "nothing is saved up";
}

TEST(FailureBrakeTest, OneSecondsWorthOfSuccessesEndsIt) {
  FailureBrake brake(100);
  FailTimes(&brake, 0, 1'000'000);
  for (int i = 0; i < 99; ++i) brake.OnSuccess();
  EXPECT_TRUE(brake.braking());
  brake.OnSuccess();
  EXPECT_FALSE(brake.braking());
  EXPECT_EQ(TakeAll(&brake, 0, 10'000), 10'000u);
  // Time alone does not: whether it still fails is found out at the rate.
  FailTimes(&brake, 1, 100);
  EXPECT_TRUE(brake.braking());
  EXPECT_GE(TakeAll(&brake, 10'000'000, 1'000), 1u);
  EXPECT_TRUE(brake.braking());
}

TEST(FailureBrakeTest, OneASecond) {
  FailureBrake brake(1);
  EXPECT_TRUE(brake.OnFailure(500));
  EXPECT_EQ(brake.NextMs(500), 1'500u);
  EXPECT_FALSE(brake.Take(1'499));
  EXPECT_TRUE(brake.Take(1'500));
  EXPECT_FALSE(brake.Take(1'500));
  brake.OnSuccess();
  EXPECT_TRUE(brake.Take(1'500));
}

// Any rates, orders and gaps: the bound holds, and NextMs is when something is granted and not
// before.
TEST(FailureBrakeTest, NeverMoreThanTheRateWhileSlowed) {
  std::mt19937_64 random(test::TestSeed());
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < test::Scaled(300); ++round) {
    const auto rate = static_cast<uint32_t>(1 + below(round % 2 == 0 ? 50 : 1'000'000));
    FailureBrake brake(rate);
    uint64_t now_ms = below(1'000'000);
    while (!brake.braking()) brake.OnFailure(now_ms);
    const uint64_t start_ms = now_ms;
    uint64_t granted = 0;
    for (int step = 0; step < 200; ++step) {
      const uint64_t next_ms = brake.NextMs(now_ms);
      ASSERT_GE(next_ms, now_ms);
      if (below(2) == 0) {
        now_ms = next_ms;
        ASSERT_TRUE(brake.Take(now_ms)) << "rate " << rate;
        ++granted;
      } else {
        now_ms += below(30);
      }
      granted += TakeAll(&brake, now_ms, below(2'000));
      if (below(3) == 0) FailTimes(&brake, now_ms, static_cast<int>(below(3)));
      ASSERT_LE(granted, uint64_t{rate} * (now_ms - start_ms + 10) / 1000 + 1) << "rate " << rate;
    }
  }
}

}  // namespace
}  // namespace duetime::delivery
