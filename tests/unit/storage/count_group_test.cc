// SPDX-License-Identifier: Apache-2.0
#include "storage/count_group.h"

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// The changes of a group as counters: by shard and topic, and by minute with its start.
struct Changes {
  using Place = std::pair<uint16_t, TopicId>;

  std::map<Place, CountDelta> topics;
  std::map<std::pair<Place, uint64_t>, CountDelta> minutes;
  std::vector<std::string> keys;

  friend bool operator==(const Changes& a, const Changes& b) {
    return a.topics == b.topics && a.minutes == b.minutes;
  }
};

Changes ChangesOf(CountGroup* group) {
  Changes changes;
  group->ForEachChange([&](const StoreKey& key, absl::string_view bytes) {
    changes.keys.emplace_back(key.bytes());
    const CountPlace place = DecodeCountKey(key.bytes()).value();
    const Changes::Place topic{place.shard, place.topic};
    if (place.row == CountRow::kTopic) {
      changes.topics[topic] = DecodeCountDelta(bytes).value();
      return;
    }
    EXPECT_EQ(place.row, CountRow::kDay);
    DayDecoder day(bytes);
    while (day.Next()) {
      changes.minutes[{topic, place.start_ms + day.minute() * kMinuteMs}] = day.delta();
    }
    EXPECT_FALSE(day.invalid());
  });
  return changes;
}

// What a subscription is done with has no counter of the whole, and its number may be a topic's.
TEST(CountGroupTest, ASubscriptionIsOneChangeForEachDay) {
  CountGroup group;
  const SubscriptionId first = FirstSubscription(kTopic);
  group.AddDone(0, first, kMinuteMs, {.messages = 1});
  group.Add(0, kTopic, 1, {1, 10});
  group.AddDone(0, first, kDayMs, {.messages = -1});
  group.AddDone(0, first, kMinuteMs + 5, {.messages = 2});
  group.AddDone(1, first, 0, {.messages = 3});
  group.AddDone(1, first, 0, {.messages = -3});
  std::vector<std::string> changes;
  group.ForEachChange([&](const StoreKey& key, absl::string_view bytes) {
    changes.emplace_back(key.bytes());
    if (DecodeCountKey(key.bytes())->row != CountRow::kDone) return;
    DayDecoder day(bytes);
    EXPECT_TRUE(day.Next());
    changes.push_back(absl::StrCat(day.minute(), ":", day.delta().messages));
  });
  EXPECT_THAT(changes, ElementsAre(CountKey(0, kTopic).bytes(), DayKey(0, kTopic, 0).bytes(),
                                   DoneKey(0, first, 0).bytes(), "1:3",
                                   DoneKey(0, first, kDayMs).bytes(), "0:-1"));
}

TEST(CountGroupTest, AGroupIsOneChangeForEachTopicAndDay) {
  CountGroup group;
  group.Add(0, kTopic, kHourMs + 70'000, {1, 10});
  group.Add(0, kTopic, kHourMs + 5, {1, 20});
  group.Add(0, kTopic, kDayMs + 5, {1, 1});
  group.Add(0, kTopic, kHourMs + 119'999, {-3, 30});
  group.Add(0, kTopic, kHourMs + 59'999, {1, 40});
  const Changes changes = ChangesOf(&group);
  const Changes::Place topic{0, kTopic};
  EXPECT_THAT(changes.keys, ElementsAre(CountKey(0, kTopic).bytes(), DayKey(0, kTopic, 0).bytes(),
                                        DayKey(0, kTopic, kDayMs).bytes()));
  EXPECT_THAT(changes.topics, ElementsAre(Pair(topic, CountDelta{1, 101})));
  EXPECT_THAT(changes.minutes,
              ElementsAre(Pair(Pair(topic, kHourMs), CountDelta{2, 60}),
                          Pair(Pair(topic, kHourMs + kMinuteMs), CountDelta{-2, 40}),
                          Pair(Pair(topic, kDayMs), CountDelta{1, 1})));
}

TEST(CountGroupTest, ChangesOfZeroAreLeftOut) {
  CountGroup group;
  group.Add(0, kTopic, 5, {1, 10});
  group.Add(0, kTopic, 5, {-1, -10});
  EXPECT_THAT(ChangesOf(&group).keys, IsEmpty());
  // A move to another minute does not change the topic's sum.
  group.Clear();
  group.Add(0, kTopic, 5, {-1, -10});
  group.Add(0, kTopic, 60'000, {1, 10});
  EXPECT_THAT(ChangesOf(&group).keys, ElementsAre(DayKey(0, kTopic, 0).bytes()));
}

TEST(CountGroupTest, ChangesAreThoseOfASimpleModelInTheOrderOfTheirKeys) {
  std::mt19937_64 random(3);
  CountGroup group;
  for (int round = 0; round < 50; ++round) {
    group.Clear();
    Changes model;
    for (int i = 0; i < 200; ++i) {
      const auto shard = static_cast<uint16_t>(random() % 3);
      const TopicId topic{static_cast<uint32_t>(random() % 3)};
      const uint64_t due_ms = random() % (2 * kDayMs / 50) * 50;
      const CountDelta delta = {static_cast<int64_t>(random() % 3) - 1,
                                static_cast<int64_t>(random() % 100) - 50};
      group.Add(shard, topic, due_ms, delta);
      CountDelta& sum = model.topics[{shard, topic}];
      sum = Sum(sum, delta);
      CountDelta& minute = model.minutes[{{shard, topic}, due_ms - due_ms % kMinuteMs}];
      minute = Sum(minute, delta);
    }
    std::erase_if(model.topics, [](const auto& entry) { return entry.second == CountDelta{}; });
    std::erase_if(model.minutes, [](const auto& entry) { return entry.second == CountDelta{}; });
    const Changes changes = ChangesOf(&group);
    EXPECT_EQ(changes, model);
    for (size_t i = 1; i < changes.keys.size(); ++i) {
      EXPECT_LT(changes.keys[i - 1], changes.keys[i]);
    }
  }
}

}  // namespace
}  // namespace duetime::storage
