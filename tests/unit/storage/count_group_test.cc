// SPDX-License-Identifier: Apache-2.0
#include "storage/count_group.h"

#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/time_units.h"

namespace duetime::storage {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr TopicId kTopic{1};

using Place = std::tuple<uint16_t, TopicId, CountLevel, uint64_t>;

std::vector<std::pair<Place, CountDelta>> SumsOf(CountGroup* group) {
  std::vector<std::pair<Place, CountDelta>> sums;
  group->ForEachSum([&](uint16_t shard, TopicId topic, CountLevel level, uint64_t start_ms,
                        const CountDelta& sum) {
    sums.push_back({{shard, topic, level, start_ms}, sum});
  });
  return sums;
}

TEST(CountGroupTest, AGroupIsOneSumForEachCounter) {
  CountGroup group;
  group.Add(0, kTopic, kHourMs + 70'000, {1, 10});
  group.Add(0, kTopic, kHourMs + 5, {1, 20});
  group.Add(0, kTopic, kHourMs + 119'999, {-3, 30});
  group.Add(0, kTopic, kHourMs + 59'999, {1, 40});
  EXPECT_THAT(SumsOf(&group),
              ElementsAre(Pair(Place{0, kTopic, CountLevel::kTopic, 0}, CountDelta{0, 100}),
                          Pair(Place{0, kTopic, CountLevel::kHour, kHourMs}, CountDelta{0, 100}),
                          Pair(Place{0, kTopic, CountLevel::kMinute, kHourMs}, CountDelta{2, 60}),
                          Pair(Place{0, kTopic, CountLevel::kMinute, kHourMs + 60'000},
                               CountDelta{-2, 40})));
}

TEST(CountGroupTest, TopicsAndShardsAreSeparateWithinAMinute) {
  CountGroup group;
  group.Add(1, kTopic, 5, {1, 10});
  group.Add(0, TopicId{2}, 5, {2, 20});
  group.Add(0, kTopic, 5, {4, 40});
  const auto sums = SumsOf(&group);
  ASSERT_EQ(sums.size(), 9u);
  EXPECT_THAT(sums[2], Pair(Place{0, kTopic, CountLevel::kMinute, 0}, CountDelta{4, 40}));
  EXPECT_THAT(sums[5], Pair(Place{0, TopicId{2}, CountLevel::kMinute, 0}, CountDelta{2, 20}));
  EXPECT_THAT(sums[8], Pair(Place{1, kTopic, CountLevel::kMinute, 0}, CountDelta{1, 10}));
}

TEST(CountGroupTest, SumsOfZeroAreLeftOut) {
  CountGroup group;
  group.Add(0, kTopic, 5, {1, 10});
  group.Add(0, kTopic, 5, {-1, -10});
  EXPECT_THAT(SumsOf(&group), IsEmpty());
  // A move to another minute of the same hour changes neither the hour's sum nor the topic's.
  group.Clear();
  group.Add(0, kTopic, 5, {-1, -10});
  group.Add(0, kTopic, 60'000, {1, 10});
  EXPECT_EQ(SumsOf(&group).size(), 2u);
}

TEST(CountGroupTest, SumsAreThoseOfASimpleModelInTheOrderOfTheirKeys) {
  std::mt19937_64 random(3);
  CountGroup group;
  for (int round = 0; round < 50; ++round) {
    group.Clear();
    std::map<Place, CountDelta> model;
    for (int i = 0; i < 200; ++i) {
      const auto shard = static_cast<uint16_t>(random() % 3);
      const TopicId topic{static_cast<uint32_t>(random() % 3)};
      const uint64_t due_ms = random() % (5 * kHourMs);
      const CountDelta delta = {static_cast<int64_t>(random() % 3) - 1,
                                static_cast<int64_t>(random() % 100) - 50};
      group.Add(shard, topic, due_ms, delta);
      for (const CountLevel level : kCountLevels) {
        CountDelta& sum = model[{shard, topic, level, BucketStart(level, due_ms)}];
        sum = Sum(sum, delta);
      }
    }
    std::erase_if(model, [](const auto& entry) { return entry.second == CountDelta{}; });
    const auto sums = SumsOf(&group);
    EXPECT_EQ((std::map<Place, CountDelta>(sums.begin(), sums.end())), model);
    EXPECT_EQ(sums.size(), model.size());
    for (size_t i = 1; i < sums.size(); ++i) {
      const auto key = [&sums](size_t at) {
        const auto& [shard, topic, level, start_ms] = sums[at].first;
        return EncodeCountKey(shard, topic, level, start_ms);
      };
      EXPECT_LT(key(i - 1), key(i));
    }
  }
}

}  // namespace
}  // namespace duetime::storage
