// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/low_watermark.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_seed.h"

namespace duetime::scheduler {
namespace {

constexpr uint64_t kBucketMs = 1'024;
constexpr uint64_t kLimit = UINT64_MAX;

TEST(LowWatermarkTest, TheOldestHolderDecides) {
  LowWatermark watermark;
  EXPECT_EQ(watermark.LowestPinned(77), 77u);
  watermark.Pin(5 * kBucketMs + 3);
  watermark.Pin(2 * kBucketMs + 1'023);
  EXPECT_EQ(watermark.LowestPinned(kLimit), 2 * kBucketMs);
  EXPECT_EQ(watermark.LowestPinned(kBucketMs), kBucketMs);
  watermark.Release(2 * kBucketMs);  // any time in the bucket
  EXPECT_EQ(watermark.LowestPinned(kLimit), 5 * kBucketMs);
  watermark.Release(5 * kBucketMs + 3);
  EXPECT_EQ(watermark.LowestPinned(kLimit), kLimit);
  EXPECT_EQ(watermark.pinned(), 0u);
}

TEST(LowWatermarkTest, ABucketIsHeldUntilItsLastHolderReleases) {
  LowWatermark watermark;
  watermark.Pin(1);
  watermark.Pin(2);
  watermark.Release(1);
  EXPECT_EQ(watermark.LowestPinned(kLimit), 0u);
  watermark.Release(2);
  EXPECT_EQ(watermark.LowestPinned(kLimit), kLimit);
  EXPECT_DEATH(watermark.Release(2), "end");
}

TEST(LowWatermarkTest, GivesTheCookiesOfOldBucketsOnce) {
  LowWatermark watermark;
  watermark.Pin(1, 10);
  watermark.Pin(2);
  watermark.Pin(kBucketMs, 11);
  watermark.Pin(2 * kBucketMs, 12);
  EXPECT_TRUE(watermark.TakeCookies(kBucketMs - 1).empty());
  EXPECT_EQ(watermark.TakeCookies(kBucketMs), std::vector<uint32_t>{10});
  EXPECT_EQ(watermark.TakeCookies(3 * kBucketMs), (std::vector<uint32_t>{11, 12}));
  EXPECT_TRUE(watermark.TakeCookies(kLimit).empty());
  EXPECT_EQ(watermark.pinned(), 4u);
  EXPECT_EQ(watermark.LowestPinned(kLimit), 0u);
}

TEST(LowWatermarkTest, AgreesWithAMultiset) {
  std::mt19937_64 random(test::TestSeed());
  LowWatermark watermark;
  std::multiset<uint64_t> model;
  for (int i = 0; i < 20'000; ++i) {
    if (model.empty() || random() % 2 == 0) {
      const uint64_t due_ms = random() % (50 * kBucketMs);
      watermark.Pin(due_ms);
      model.insert(due_ms);
    } else {
      auto it = model.begin();
      std::advance(it, random() % std::min<size_t>(model.size(), 5));
      watermark.Release(*it);
      model.erase(it);
    }
    const uint64_t expected = model.empty() ? kLimit : *model.begin() / kBucketMs * kBucketMs;
    ASSERT_EQ(watermark.LowestPinned(kLimit), expected);
    ASSERT_EQ(watermark.pinned(), model.size());
  }
}

}  // namespace
}  // namespace duetime::scheduler
