// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/due_turns.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_seed.h"

namespace duetime::scheduler {
namespace {

using storage::TopicId;

Wheel::Expired Due(uint32_t topic, uint64_t due_ms, uint64_t number, bool held = false) {
  Timer timer;
  timer.topic = TopicId{topic};
  timer.id = storage::MessageId::Make(1, number, 0, due_ms);
  timer.pinned = held ? 1u : 0u;
  return {.due = due_ms, .entry = timer};
}

std::vector<Wheel::Expired> Take(DueTurns* turns, size_t count) {
  std::vector<Wheel::Expired> out;
  turns->Take(count, &out);
  return out;
}

TEST(DueTurnsTest, ATopicWithOneWaitsForATurnOfTheOtherAndNotForAllOfIt) {
  DueTurns turns;
  for (uint64_t i = 1; i <= 100'000; ++i) turns.Add(Due(1, 10, i));
  turns.Add(Due(2, 11, 100'001));
  const auto first = Take(&turns, DueTurns::kTurn + 1);
  ASSERT_EQ(first.size(), DueTurns::kTurn + 1);
  EXPECT_EQ(first.back().entry.topic, TopicId{2});
  EXPECT_EQ(turns.size(), 100'000 - DueTurns::kTurn);
}

TEST(DueTurnsTest, WhoComesWithinATurnOfAnotherIsNextBehindIt) {
  DueTurns turns;
  for (uint64_t i = 1; i <= 1'000; ++i) turns.Add(Due(1, 10, i));
  EXPECT_EQ(Take(&turns, 10).size(), 10u);
  turns.Add(Due(2, 10, 1'001));
  const auto rest = Take(&turns, DueTurns::kTurn + 1);
  EXPECT_EQ(rest.back().entry.topic, TopicId{2});
}

TEST(DueTurnsTest, TheLowestDueTimeIsThatOfTheFirstOfSomeTopic) {
  DueTurns turns;
  EXPECT_EQ(turns.LowestDue(50), 50u);
  turns.Add(Due(1, 30, 1));
  turns.Add(Due(2, 20, 2));
  turns.Add(Due(2, 40, 3));
  EXPECT_EQ(turns.LowestDue(50), 20u);
  EXPECT_EQ(turns.LowestDue(10), 10u);
  EXPECT_EQ(Take(&turns, 2).size(), 2u);
  EXPECT_EQ(turns.LowestDue(50), 40u);
  EXPECT_EQ(Take(&turns, 2).size(), 1u);
  EXPECT_EQ(turns.LowestDue(50), 50u);
}

// Compares the order with one deque per topic.
TEST(DueTurnsTest, KeepsTheOrderOfEachTopic) {
  std::mt19937_64 random(test::TestSeed());
  DueTurns turns;
  std::map<TopicId, std::deque<uint64_t>> model;
  size_t size = 0;
  uint64_t number = 0;
  for (int step = 0; step < 3'000; ++step) {
    if (random() % 2 == 0) {
      const auto count = random() % 300;
      const auto topic = static_cast<uint32_t>(1 + random() % (random() % 2 == 0 ? 3 : 200));
      for (uint64_t i = 0; i < count; ++i) {
        // A late message may have any due time.
        const bool late = random() % 50 == 0;
        ++number;
        turns.Add(Due(topic, late ? random() % (number + 1) : number, number, late));
        model[TopicId{topic}].push_back(number);
      }
      size += count;
    } else {
      const size_t count = random() % 400;
      const auto taken = Take(&turns, count);
      ASSERT_EQ(taken.size(), std::min(count, size));
      size -= taken.size();
      for (const Wheel::Expired& due : taken) {
        std::deque<uint64_t>& topic = model[due.entry.topic];
        ASSERT_FALSE(topic.empty());
        ASSERT_EQ(due.entry.id.sequence(), topic.front());
        topic.pop_front();
      }
    }
    ASSERT_EQ(turns.size(), size);
    turns.CheckInvariants();
  }
}

}  // namespace
}  // namespace duetime::scheduler
