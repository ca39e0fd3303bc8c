// SPDX-License-Identifier: Apache-2.0
//
// The parts of the wheel: ticks, the bitmap of a level, the chunked lists.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "server/wheel/item_list.h"
#include "server/wheel/slot_bitmap.h"
#include "server/wheel/tick.h"

namespace duetime::wheel {
namespace {

// Checks the two rules of tick.h for every due time and clock within a few ticks.
TEST(TickTest, NeverEarlyAndLateByLessThanATick) {
  for (const uint64_t units : {1u, 2u, 7u, 1'000u}) {
    for (uint64_t due = 0; due < 5 * units; ++due) {
      uint64_t handed_out = 0;
      while (NowTick(handed_out, units) < DueTick(due, units)) ++handed_out;
      ASSERT_GE(handed_out, due);
      ASSERT_LT(handed_out, due + units);
    }
  }
  EXPECT_EQ(DueTick(UINT64_MAX, 1'000'000), UINT64_MAX / 1'000'000 + 1);
  EXPECT_EQ(NowTick(UINT64_MAX, 1'000'000), UINT64_MAX / 1'000'000);
}

TEST(SlotBitmapTest, AgreesWithASet) {
  std::mt19937 random(3);
  for (const uint32_t spread : {1u, 64u, 700u, SlotBitmap::kBits}) {
    SlotBitmap bitmap;
    std::set<uint32_t> model;
    for (int i = 0; i < 20'000; ++i) {
      const uint32_t bit = (SlotBitmap::kBits - 30 + random() % spread) % SlotBitmap::kBits;
      if (random() % 2 == 0) {
        bitmap.Set(bit);
        model.insert(bit);
      } else {
        bitmap.Clear(bit);
        model.erase(bit);
      }
      const uint32_t from = static_cast<uint32_t>(random()) % SlotBitmap::kBits;
      const auto next = model.lower_bound(from);
      const uint32_t first = model.empty() ? SlotBitmap::kNone : *model.begin();
      ASSERT_EQ(bitmap.FindFrom(from), next == model.end() ? SlotBitmap::kNone : *next);
      const auto after = model.upper_bound(from);
      ASSERT_EQ(bitmap.FindAfter(from), after == model.end() ? SlotBitmap::kNone : *after);
      ASSERT_EQ(bitmap.FindAround(from), next == model.end() ? first : *next);
      ASSERT_EQ(bitmap.Test(from), model.contains(from));
      ASSERT_EQ(bitmap.empty(), model.empty());
    }
  }
}

struct Item {
  uint64_t value;
  uint64_t more[2];
};
using Pool = ItemPool<Item>;
struct List {
  Item* write = nullptr;
  uint32_t head = Pool::kNone;
};

// A few lists, each compared with a deque.
class Lists {
 public:
  explicit Lists(size_t count) : lists_(count), models_(count) {}

  void Append(size_t number) {
    bool grew = false;
    const bool was_empty = models_[number].empty();
    *pool_.Append(&lists_[number], [&grew] { grew = true; }) = Item{next_, {}};
    EXPECT_TRUE(grew || !was_empty);
    models_[number].push_back(next_++);
  }

  void Consume(size_t number, size_t count) {
    auto& model = models_[number];
    const size_t expected = std::min(count, model.size());
    const size_t taken = pool_.Consume(
        &lists_[number], count,
        [&](const Item* items, size_t n) {
          for (size_t i = 0; i < n; ++i) {
            ASSERT_EQ(items[i].value, model.front());
            model.pop_front();
          }
        },
        [] {});
    ASSERT_EQ(taken, expected);
  }

  // Removes the multiples of `divisor`, from the front to the end of the list.
  void Sweep(size_t number, uint64_t divisor) {
    size_t removed = 0;
    const size_t before = models_[number].size();
    while (!pool_.SweepChunk(
        &lists_[number], [=](const Item& item) { return item.value % divisor != 0; }, [] {},
        &removed)) {
      Check();
    }
    std::erase_if(models_[number], [=](uint64_t value) { return value % divisor == 0; });
    ASSERT_EQ(removed, before - models_[number].size());
  }

  // Makes one step of a sweep that removes nothing.
  void SweepAChunk(size_t number) {
    size_t removed = 0;
    pool_.SweepChunk(
        &lists_[number], [](const Item&) { return true; }, [] {}, &removed);
    ASSERT_EQ(removed, 0u);
  }

  void Check() const {
    size_t chunks = 0;
    for (size_t i = 0; i < lists_.size(); ++i) {
      chunks += pool_.CheckList(lists_[i]);
    }
    ASSERT_EQ(chunks, pool_.chunks());
  }

  void CheckContents() const {
    for (size_t i = 0; i < lists_.size(); ++i) {
      std::deque<uint64_t> seen;
      ASSERT_TRUE(pool_.Visit(lists_[i], models_[i].size(),
                              [&seen](const Item& item) { seen.push_back(item.value); }));
      ASSERT_EQ(seen, models_[i]);
      if (!seen.empty()) {
        ASSERT_FALSE(pool_.Visit(lists_[i], seen.size() - 1, [](const Item&) {}));
      }
    }
  }

  const Pool& pool() const { return pool_; }

 private:
  Pool pool_{HeapSlabs::Shared()};
  std::vector<List> lists_;
  std::vector<std::deque<uint64_t>> models_;
  uint64_t next_ = 1;
};

TEST(ItemListTest, RandomUseAgreesWithDeques) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    Lists lists(3);
    for (int i = 0; i < 200; ++i) {
      const size_t number = random() % 3;
      switch (random() % 4) {
        case 0:
        case 1:
          for (uint64_t n = random() % 100; n > 0; --n) lists.Append(number);
          break;
        case 2:
          lists.Consume(number, random() % 120);
          break;
        default:
          lists.Sweep(number, 1 + random() % 4);
          break;
      }
      lists.Check();
      lists.CheckContents();
    }
  }
}

TEST(ItemListTest, ASweepGoesOnWhenItsChunkHasGoneToAnotherList) {
  Lists lists(2);
  for (uint32_t i = 0; i < 5 * Pool::kItems; ++i) lists.Append(0);
  lists.SweepAChunk(0);
  lists.SweepAChunk(0);
  // The swept chunks are consumed, and the next list reuses them.
  lists.Consume(0, 2 * Pool::kItems);
  for (uint32_t i = 0; i < 2 * Pool::kItems; ++i) lists.Append(1);
  lists.Sweep(0, 2);
  lists.Check();
  lists.CheckContents();
}

TEST(ItemListTest, ASweptListTakesNoMoreChunksThanItNeeds) {
  Lists lists(1);
  for (int i = 0; i < 10'000; ++i) lists.Append(0);
  lists.Sweep(0, 2);
  lists.Sweep(0, 3);
  lists.CheckContents();
  // A third of the items is left.
  EXPECT_LE(lists.pool().chunks(), 10'000 / 3 / Pool::kItems + 2);
  lists.Sweep(0, 1);
  EXPECT_EQ(lists.pool().chunks(), 0u);
}

}  // namespace
}  // namespace duetime::wheel
