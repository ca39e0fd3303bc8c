// SPDX-License-Identifier: Apache-2.0
#include "server/base/token_bucket.h"

#include <cstdint>
#include <random>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::base {
namespace {

constexpr uint64_t kAll = UINT64_MAX;
constexpr TokenBucket::Size kSize{.token = 10, .capacity = 50};

TEST(TokenBucketTest, GrantsOneCapacityAtOnceAndThenTheRate) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Take(1'000, kSize, kAll), 5u);
  EXPECT_EQ(bucket.Take(1'009, kSize, kAll), 0u);
  EXPECT_EQ(bucket.Take(1'010, kSize, kAll), 1u);
  EXPECT_EQ(bucket.Take(1'039, kSize, 1), 1u) << "no more than wanted";
  EXPECT_EQ(bucket.Take(1'039, kSize, kAll), 1u);
  EXPECT_EQ(bucket.Take(9'000, kSize, kAll), 5u) << "no more than the capacity";
}

TEST(TokenBucketTest, SaysHowMuchIsMissing) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Missing(100, kSize, 50), 0u);
  bucket.Empty(100, kSize);
  EXPECT_EQ(bucket.Missing(100, kSize, 10), 10u);
  EXPECT_EQ(bucket.Missing(104, kSize, 10), 6u);
  EXPECT_EQ(bucket.Missing(150, kSize, 50), 0u);
}

TEST(TokenBucketTest, GiveBackStopsAtTheCapacity) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Take(100, kSize, 3), 3u);
  bucket.GiveBack(100, kSize, 2);
  EXPECT_EQ(bucket.Take(100, kSize, kAll), 4u);
  bucket.GiveBack(100, kSize, 1'000);
  EXPECT_EQ(bucket.Take(100, kSize, kAll), 5u);
}

TEST(TokenBucketTest, OverflowIsToldOnce) {
  TokenBucket bucket;
  bucket.Empty(100, kSize);
  EXPECT_EQ(bucket.TakeOverflow(150), 0u) << "just full";
  EXPECT_EQ(bucket.TakeOverflow(157), 7u);
  EXPECT_EQ(bucket.TakeOverflow(157), 0u);
}

TEST(TokenBucketTest, ALargerCapacityKeepsTheLevel) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Take(100, kSize, 4), 4u);
  bucket.Grow(50);
  EXPECT_EQ(bucket.Take(100, {.token = 10, .capacity = 100}, kAll), 1u);
}

TEST(TokenBucketTest, ASmallerSizeOwesAtMostItself) {
  TokenBucket bucket;
  EXPECT_EQ(bucket.Take(100, kSize, kAll), 5u);
  constexpr TokenBucket::Size kSmall{.token = 10, .capacity = 10};
  bucket.Fit(100, kSmall);
  EXPECT_EQ(bucket.Missing(100, kSmall, 10), 10u);
}

// In every interval the bucket grants at most the meter's advance plus one capacity.
TEST(TokenBucketTest, NeverGrantsMoreThanTheMeterGives) {
  std::mt19937_64 random(test::TestSeed());
  for (int round = 0; round < test::Scaled(200); ++round) {
    const TokenBucket::Size size{.token = 1 + random() % 20, .capacity = 20 + random() % 200};
    TokenBucket bucket(random() % 1'000);
    uint64_t reading = 1'000;
    uint64_t granted = 0;
    for (int i = 0; i < 200; ++i) {
      reading += random() % 30;
      granted += bucket.Take(reading, size, random() % 8);
      ASSERT_LE(granted * size.token, reading - 1'000 + size.capacity);
    }
  }
}

}  // namespace
}  // namespace duetime::base
