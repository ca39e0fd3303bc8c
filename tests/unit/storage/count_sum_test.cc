// SPDX-License-Identifier: Apache-2.0
#include "storage/count_sum.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/value_codec.h"
#include "tests/support/test_seed.h"

namespace duetime::storage {
namespace {

const StoreKey kTopicKey = CountKey(7, TopicId{3});
const StoreKey kDayKey = DayKey(7, TopicId{3}, 2 * kDayMs);

std::string TopicChange(const CountDelta& delta) {
  const auto bytes = EncodeCountDelta(delta);
  return std::string(bytes.data(), bytes.size());
}

std::string DayChange(size_t minute, const CountDelta& delta) {
  DayEncoder day;
  day.Add(minute, delta);
  return day.bytes();
}

std::string SumOf(const StoreKey& key, const std::vector<std::string>& changes) {
  CountSum sum(key.bytes());
  for (const std::string& change : changes) EXPECT_TRUE(sum.Add(change));
  return sum.Encode();
}

TEST(CountSumTest, AddsTheChangesOfATopic) {
  EXPECT_EQ(SumOf(kTopicKey, {}), TopicChange({0, 0}));
  EXPECT_EQ(SumOf(kTopicKey, {TopicChange({3, 30}), TopicChange({-1, -10})}), TopicChange({2, 20}));
}

TEST(CountSumTest, AddsTheChangesOfADayByMinute) {
  EXPECT_EQ(SumOf(kDayKey, {}), "");
  DayEncoder expected;
  expected.Add(0, {2, 20});
  expected.Add(kMinutesPerDay - 1, {5, 50});
  EXPECT_EQ(SumOf(kDayKey, {DayChange(kMinutesPerDay - 1, {5, 50}), DayChange(0, {3, 30}),
                            DayChange(1, {1, 1}), DayChange(0, {-1, -10}), DayChange(1, {-1, -1})}),
            expected.bytes());
}

// An engine adds changes in any grouping, and sums of them to other sums.
TEST(CountSumTest, OrderAndGroupingMakeNoDifference) {
  std::mt19937_64 random(test::TestSeed(1));
  for (int round = 0; round < 200; ++round) {
    const bool is_day = round % 2 == 0;
    const StoreKey& key = is_day ? kDayKey : kTopicKey;
    std::vector<std::string> changes(1 + random() % 12);
    for (std::string& change : changes) {
      const CountDelta delta = {static_cast<int64_t>(random() % 7) - 3,
                                static_cast<int64_t>(random() % 700) - 300};
      change = is_day ? DayChange(random() % 5, delta) : TopicChange(delta);
    }
    const std::string expected = SumOf(key, changes);
    std::shuffle(changes.begin(), changes.end(), random);
    while (changes.size() > 1) {
      const size_t first = random() % (changes.size() - 1);
      const size_t count = std::min<size_t>(2 + random() % 3, changes.size() - first);
      const auto begin = changes.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = begin + static_cast<std::ptrdiff_t>(count);
      *begin = SumOf(key, {begin, end});
      changes.erase(begin + 1, end);
    }
    EXPECT_EQ(changes[0], expected) << "round " << round;
  }
}

TEST(CountSumTest, RefusesBytesThatNoEncoderWrites) {
  const std::pair<StoreKey, std::string> invalid[] = {
      {kTopicKey, ""},
      {kTopicKey, "short"},
      {kTopicKey, TopicChange({1, 1}) + "x"},
      {kDayKey, "x"},
      {kDayKey, DayChange(3, {1, 1}).substr(1)},
      {kDayKey, TopicChange({0, 0})},
  };
  for (const auto& [key, bytes] : invalid) {
    CountSum sum(key.bytes());
    EXPECT_FALSE(sum.Add(bytes)) << bytes.size() << " bytes";
  }
}

TEST(CountSumTest, KnowsAZero) {
  EXPECT_TRUE(CountSum::IsZero(kTopicKey.bytes(), SumOf(kTopicKey, {})));
  EXPECT_TRUE(CountSum::IsZero(kDayKey.bytes(), SumOf(kDayKey, {})));
  EXPECT_FALSE(CountSum::IsZero(kTopicKey.bytes(), TopicChange({0, 1})));
  EXPECT_FALSE(CountSum::IsZero(kTopicKey.bytes(), TopicChange({-1, 0})));
  EXPECT_FALSE(CountSum::IsZero(kTopicKey.bytes(), ""));
  EXPECT_FALSE(CountSum::IsZero(kDayKey.bytes(), DayChange(0, {-1, 0})));
}

}  // namespace
}  // namespace duetime::storage
