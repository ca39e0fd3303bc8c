// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/ordering_key_locks.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

using Turn = OrderingKeyLocks::Turn;

constexpr size_t kRoom = 1'000'000;

storage::MessageKey PlaceAt(uint64_t due_ms) { return storage::MessageKey::FirstAt(due_ms); }

TEST(KeyHoldsTest, TheFirstHoldsAndTheOthersFollowInOrder) {
  OrderingKeyLocks holds;
  EXPECT_EQ(holds.Acquire(7, 1, kRoom), Turn::kHolds);
  EXPECT_EQ(holds.Acquire(7, 1, kRoom), Turn::kHolds) << "it holds it already";
  EXPECT_EQ(holds.Acquire(7, 3, kRoom), Turn::kWaits);
  EXPECT_EQ(holds.Acquire(7, 2, kRoom), Turn::kWaits);
  EXPECT_EQ(holds.Acquire(7, 3, kRoom), Turn::kWaits) << "it waits already, and keeps its place";
  EXPECT_EQ(holds.Acquire(8, 4, kRoom), Turn::kHolds) << "another key";
  EXPECT_EQ(holds.waiting(), 2u);
  EXPECT_EQ(holds.held(), 2u);
  EXPECT_TRUE(holds.Holds(7, 1));
  EXPECT_FALSE(holds.Holds(7, 3));
  EXPECT_FALSE(holds.Holds(9, 1));

  EXPECT_EQ(holds.Release(7, 1), 3u);
  EXPECT_TRUE(holds.Holds(7, 3));
  EXPECT_EQ(holds.Acquire(7, 3, kRoom), Turn::kHolds);
  EXPECT_EQ(holds.Acquire(7, 1, kRoom), Turn::kWaits) << "it comes again: behind the others";
  EXPECT_EQ(holds.Release(7, 3), 2u);
  EXPECT_EQ(holds.Release(7, 2), 1u);
  EXPECT_EQ(holds.Release(7, 1), kNoEntry);
  EXPECT_EQ(holds.Release(8, 4), kNoEntry);
  EXPECT_EQ(holds.waiting(), 0u);
  EXPECT_EQ(holds.held(), 0u);
}

TEST(KeyHoldsTest, WhoWaitsMayLeave) {
  for (const EntryIndex leaves : {2u, 3u, 4u}) {
    OrderingKeyLocks holds;
    for (EntryIndex entry = 1; entry <= 4; ++entry) holds.Acquire(7, entry, kRoom);
    holds.RemoveWaiting(7, leaves);
    EXPECT_EQ(holds.waiting(), 2u);
    std::vector<EntryIndex> order;
    for (EntryIndex entry = holds.Release(7, 1); entry != kNoEntry;
         entry = holds.Release(7, entry)) {
      order.push_back(entry);
    }
    std::vector<EntryIndex> expected{2, 3, 4};
    expected.erase(std::find(expected.begin(), expected.end(), leaves));
    EXPECT_EQ(order, expected);
  }
}

TEST(KeyHoldsTest, AllWhoWaitMayLeave) {
  OrderingKeyLocks holds;
  for (EntryIndex entry = 1; entry <= 3; ++entry) holds.Acquire(7, entry, kRoom);
  holds.RemoveWaiting(7, 3);
  holds.RemoveWaiting(7, 2);
  EXPECT_EQ(holds.Acquire(7, 5, kRoom), Turn::kWaits);
  EXPECT_EQ(holds.Release(7, 1), 5u);
  EXPECT_EQ(holds.Release(7, 5), kNoEntry);
  EXPECT_EQ(holds.held(), 0u);
}

TEST(KeyHoldsTest, TheRestOfALongKeyComesFromDiskInItsOrder) {
  OrderingKeyLocks holds;
  EXPECT_EQ(holds.Acquire(7, 1, /*room=*/1), Turn::kHolds);
  EXPECT_EQ(holds.Acquire(7, 2, 1), Turn::kWaits);
  EXPECT_EQ(holds.Acquire(7, 3, 1), Turn::kNoRoom);
  holds.AddToRest(7, PlaceAt(30));
  EXPECT_EQ(holds.Acquire(7, 4, kRoom), Turn::kNoRoom) << "it would overtake the rest";
  holds.AddToRest(7, PlaceAt(40));
  EXPECT_EQ(holds.Acquire(8, 5, 1), Turn::kHolds) << "another key";
  EXPECT_EQ(holds.Longest(), 1u);
  EXPECT_EQ(holds.Release(7, 1), 2u);
  EXPECT_FALSE(holds.wants_read()) << "it is held";
  EXPECT_EQ(holds.Release(7, 2), kNoEntry);
  ASSERT_TRUE(holds.wants_read());
  EXPECT_EQ(holds.wanted(), PlaceAt(30));
  EXPECT_EQ(holds.Acquire(7, 6, kRoom), Turn::kNoRoom)
      << "nobody holds the key, but the rest is older";
  holds.AddToRest(7, PlaceAt(60));
  holds.CheckInvariants(/*behind=*/false);

  holds.BeginRead(PlaceAt(30));
  EXPECT_FALSE(holds.wants_read());
  EXPECT_EQ(holds.Acquire(7, 3, 1), Turn::kHolds);
  EXPECT_EQ(holds.Acquire(7, 4, 1), Turn::kWaits);
  EXPECT_EQ(holds.Acquire(7, 6, 1), Turn::kNoRoom);
  holds.AddToRest(7, PlaceAt(60));
  holds.EndRead();
  EXPECT_EQ(holds.rests(), 1u) << "a new rest";
  holds.Release(7, 3);
  holds.Release(7, 4);
  EXPECT_EQ(holds.wanted(), PlaceAt(60));
  holds.BeginRead(PlaceAt(60));
  holds.EndRead();
  EXPECT_EQ(holds.rests(), 0u) << "the message had ended";
  EXPECT_EQ(holds.Acquire(7, 9, 1), Turn::kHolds);
}

TEST(KeyHoldsDeathTest, OnlyTheHolderReleasesAndOnlyWhoWaitsLeaves) {
  OrderingKeyLocks holds;
  holds.Acquire(7, 1, kRoom);
  holds.Acquire(7, 2, kRoom);
  EXPECT_DEATH(holds.Release(7, 2), "check failed");
  EXPECT_DEATH(holds.Release(8, 1), "check failed");
  EXPECT_DEATH(holds.RemoveWaiting(7, 1), "check failed");
  EXPECT_DEATH(holds.RemoveWaiting(8, 2), "check failed");
}

// Against the plainest thing that does it: a queue for each key, the holder at its front.
class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed) {}

  void Step() {
    const uint64_t key = random_() % kKeys;
    std::deque<EntryIndex>& queue = model_[key];
    const uint64_t dice = random_() % 10;
    if (dice < 5 || queue.empty()) {
      Acquire(key, &queue);
    } else if (dice < 9) {
      queue.pop_front();
      const EntryIndex released = holds_.Release(key, last_holder_[key]);
      ASSERT_EQ(released, queue.empty() ? kNoEntry : queue.front());
      last_holder_[key] = released;
    } else if (queue.size() > 1) {
      const auto at = static_cast<std::ptrdiff_t>(1 + random_() % (queue.size() - 1));
      holds_.RemoveWaiting(key, queue[static_cast<size_t>(at)]);
      queue.erase(queue.begin() + at);
    }
  }

  void Check() {
    size_t waiting = 0;
    size_t held = 0;
    for (const auto& [key, queue] : model_) {
      if (queue.empty()) continue;
      ++held;
      waiting += queue.size() - 1;
      ASSERT_TRUE(holds_.Holds(key, queue.front()));
    }
    ASSERT_EQ(holds_.held(), held);
    ASSERT_EQ(holds_.waiting(), waiting);
  }

 private:
  static constexpr uint64_t kKeys = 6;

  void Acquire(uint64_t key, std::deque<EntryIndex>* queue) {
    // Every third time one that is there already.
    if (!queue->empty() && random_() % 3 == 0) {
      const EntryIndex entry = (*queue)[random_() % queue->size()];
      ASSERT_EQ(holds_.Acquire(key, entry, kRoom) == Turn::kHolds, entry == queue->front());
      return;
    }
    const EntryIndex entry = next_entry_++;
    queue->push_back(entry);
    ASSERT_EQ(holds_.Acquire(key, entry, kRoom) == Turn::kHolds, queue->size() == 1);
    last_holder_[key] = queue->front();
  }

  std::mt19937_64 random_;
  OrderingKeyLocks holds_;
  std::map<uint64_t, std::deque<EntryIndex>> model_;
  std::map<uint64_t, EntryIndex> last_holder_;
  EntryIndex next_entry_ = 0;
};

TEST(KeyHoldsTest, DoesWhatQueuesDo) {
  ModelRun run(test::TestSeed());
  for (int64_t i = test::Scaled(200'000); i > 0 && !testing::Test::HasFatalFailure(); --i) {
    run.Step();
    if (i % 16 == 0) run.Check();
  }
}

}  // namespace
}  // namespace duetime::delivery
