// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/retry_backoff.h"

#include <cstdint>
#include <limits>
#include <random>
#include <set>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

protocol::RetryPolicy Policy(uint64_t min_ms, uint64_t max_ms, uint32_t multiplier,
                             uint32_t jitter) {
  protocol::RetryPolicy policy;
  policy.set_min_backoff_ms(min_ms);
  policy.set_max_backoff_ms(max_ms);
  policy.set_multiplier_percent(multiplier);
  policy.set_jitter_percent(jitter);
  return policy;
}

TEST(RetryBackoffTest, TheDefaultIsNotAtOnce) {
  const protocol::RetryPolicy& by_default = protocol::DefaultSubscriptionSettings().retry();
  for (const uint32_t attempts : {0u, 1u, 2u, 1000u, UINT32_MAX}) {
    EXPECT_GE(BackoffMs(by_default, attempts, attempts), 1'000u);
    EXPECT_LE(BackoffMs(by_default, attempts, attempts), 720'000u);
    EXPECT_EQ(BackoffMs(Policy(0, 600'000, 200, 20), attempts, attempts), 0u);
  }
}

TEST(RetryBackoffTest, GrowsUpToTheMaximum) {
  const protocol::RetryPolicy twice = Policy(1000, 10'000, 200, 0);
  EXPECT_EQ(BackoffMs(twice, 0, 7), 1000u) << "as after the first";
  EXPECT_EQ(BackoffMs(twice, 1, 7), 1000u);
  EXPECT_EQ(BackoffMs(twice, 2, 7), 2000u);
  EXPECT_EQ(BackoffMs(twice, 3, 7), 4000u);
  EXPECT_EQ(BackoffMs(twice, 4, 7), 8000u);
  EXPECT_EQ(BackoffMs(twice, 5, 7), 10'000u);
  EXPECT_EQ(BackoffMs(twice, UINT32_MAX, 7), 10'000u);
}

TEST(RetryBackoffTest, FractionsAreNotLostOnTheWay) {
  // 1 ms grows by 1 % although each single step is less than a millisecond.
  EXPECT_EQ(BackoffMs(Policy(1, 1000, 101, 0), 101, 0), 3u);
  EXPECT_EQ(BackoffMs(Policy(1000, 100'000, 110, 0), 2, 0), 1100u);
  EXPECT_EQ(BackoffMs(Policy(1000, 100'000, 150, 0), 4, 0), 3375u);
}

TEST(RetryBackoffTest, StaysWithAMultiplierOfOne) {
  EXPECT_EQ(BackoffMs(Policy(500, 100'000, 100, 0), UINT32_MAX, 1), 500u);
}

TEST(RetryBackoffTest, AMaximumBelowTheMinimumCounts) {
  EXPECT_EQ(BackoffMs(Policy(500, 200, 200, 0), 1, 1), 200u);
  EXPECT_EQ(BackoffMs(Policy(500, 0, 200, 100), 1, 1), 0u);
}

TEST(RetryBackoffTest, NothingOverflows) {
  for (const uint32_t attempts : {1u, 2u, 64u, UINT32_MAX}) {
    EXPECT_EQ(BackoffMs(Policy(kMax, kMax, UINT32_MAX, 100), attempts, 3), kMax);
    EXPECT_GE(BackoffMs(Policy(kMax / 2 + 1, kMax / 2 + 1, 200, 100), attempts, 3), kMax / 2 + 1);
  }
}

TEST(RetryBackoffTest, JitterDiffersFromMessageToMessageAndFromAttemptToAttempt) {
  const protocol::RetryPolicy policy = Policy(1'000'000, 1'000'000, 100, 50);
  std::set<uint64_t> of_seeds;
  std::set<uint64_t> of_attempts;
  for (uint32_t i = 1; i <= 1000; ++i) {
    of_seeds.insert(BackoffMs(policy, 1, i));
    of_attempts.insert(BackoffMs(policy, i, 1));
  }
  // Of half a million points a thousand draws rarely meet.
  EXPECT_GT(of_seeds.size(), 990u);
  EXPECT_GT(of_attempts.size(), 990u);
  EXPECT_LT(*of_seeds.begin(), 1'010'000u) << "the whole width is used";
  EXPECT_GT(*of_seeds.rbegin(), 1'490'000u);
}

// Any policy: never below the one without jitter, never above it by more than the jitter, the same
// at each call, never shorter than after fewer attempts, never beyond the maximum and its jitter.
TEST(RetryBackoffTest, HoldsItsBoundsForAnyPolicy) {
  std::mt19937_64 random(test::TestSeed());
  const auto magnitude = [&random](uint64_t bits) { return random() >> (63 - random() % bits); };
  for (int64_t i = test::Scaled(200'000); i > 0; --i) {
    const auto multiplier = static_cast<uint32_t>(100 + magnitude(12));
    const auto jitter = static_cast<uint32_t>(random() % 101);
    const protocol::RetryPolicy policy = Policy(magnitude(44), magnitude(44), multiplier, jitter);
    const auto attempts = static_cast<uint32_t>(magnitude(31));
    const uint64_t seed = random();
    protocol::RetryPolicy exact = policy;
    exact.set_jitter_percent(0);
    const uint64_t base_ms = BackoffMs(exact, attempts, seed);
    const uint64_t delay_ms = BackoffMs(policy, attempts, seed);
    ASSERT_EQ(delay_ms, BackoffMs(policy, attempts, seed));
    ASSERT_GE(delay_ms, base_ms);
    ASSERT_LE(delay_ms, base_ms + base_ms * jitter / 100);
    ASSERT_LE(base_ms, policy.max_backoff_ms());
    ASSERT_LE(base_ms, BackoffMs(exact, attempts + 1, seed));
    if (policy.min_backoff_ms() <= policy.max_backoff_ms()) {
      ASSERT_GE(base_ms, policy.min_backoff_ms());
    }
  }
}

}  // namespace
}  // namespace duetime::delivery
