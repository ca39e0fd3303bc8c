// SPDX-License-Identifier: Apache-2.0
//
// Cancelling: the guarantees of cancellable_wheel.h, each under its name, and the bugs that other
// wheels had with it.
#include "server/wheel/cancellable_wheel.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::wheel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Wheel = CancellableWheel<int>;
constexpr Tick kHour = 3'600'000;
constexpr Tick kYear = 365 * 24 * kHour;

// One call; what it handed out.
std::vector<int> Take(Wheel* wheel, Tick now, size_t budget = 1'000'000) {
  std::vector<Wheel::Expired> out;
  wheel->Advance(now, budget, &out);
  wheel->CheckInvariants();
  std::vector<int> entries;
  for (const Wheel::Expired& expired : out) {
    EXPECT_LE(expired.due, std::max(now, wheel->position()));
    entries.push_back(expired.entry);
  }
  return entries;
}

// Calls until everything due is handed out.
std::vector<int> Drain(Wheel* wheel, Tick now, size_t budget) {
  std::vector<int> entries;
  std::vector<Wheel::Expired> out;
  while (!wheel->Advance(now, budget, &out)) continue;
  for (const Wheel::Expired& expired : out) entries.push_back(expired.entry);
  return entries;
}

TEST(CancellableWheelTest, G5_CancelInEveryLevelAndPlaceOfTheList) {
  for (const Tick delay :
       {Tick{1}, Tick{200}, Tick{60'000}, kHour, kYear, Tick{1} << 50, Tick{1} << 60, kNever - 1}) {
    for (size_t victim = 0; victim < 3; ++victim) {
      Wheel wheel(0);
      std::vector<TimerHandle> handles;
      for (int i = 0; i < 3; ++i) handles.push_back(wheel.Add(delay, i));
      EXPECT_TRUE(wheel.Cancel(handles[victim]));
      wheel.CheckInvariants();
      EXPECT_FALSE(wheel.Cancel(handles[victim]));
      std::vector<int> expected{0, 1, 2};
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(victim));
      EXPECT_EQ(Take(&wheel, delay), expected);
    }
  }
}

TEST(CancellableWheelTest, G5_CancelWhileTheSlotIsBeingCascaded) {
  constexpr Tick kDue = 70'000;
  // The entry at 0 is moved by then, the one at 4 is not.
  for (const size_t victim : {size_t{0}, size_t{1}, size_t{4}}) {
    Wheel wheel(0);
    std::vector<TimerHandle> handles;
    for (int i = 0; i < 5; ++i) handles.push_back(wheel.Add(kDue, i));
    EXPECT_THAT(Take(&wheel, kDue, 1), IsEmpty());
    EXPECT_TRUE(wheel.Cancel(handles[victim]));
    wheel.CheckInvariants();
    std::vector<int> expected{0, 1, 2, 3, 4};
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(victim));
    EXPECT_EQ(Drain(&wheel, kDue, 1), expected);
  }
}

TEST(CancellableWheelTest, G5_CancellingAllOfACascadeLeavesNothing) {
  Wheel wheel(0);
  const TimerHandle moved = wheel.Add(70'000, 0);
  const TimerHandle waiting = wheel.Add(70'000, 1);
  EXPECT_THAT(Take(&wheel, 69'632, 1), IsEmpty());
  EXPECT_TRUE(wheel.Cancel(waiting));
  EXPECT_TRUE(wheel.Cancel(moved));
  EXPECT_EQ(wheel.NextDue(), kNever);
  wheel.Add(70'000, 2);
  EXPECT_LE(wheel.NextDue(), 70'000u);
  EXPECT_THAT(Take(&wheel, 70'000), ElementsAre(2));
}

TEST(CancellableWheelTest, G5_CancelInTheMiddleOfATick) {
  Wheel wheel(0);
  std::vector<TimerHandle> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(wheel.Add(9, i));
  EXPECT_THAT(Take(&wheel, 9, 1), ElementsAre(0));
  EXPECT_FALSE(wheel.Cancel(handles[0]));
  EXPECT_TRUE(wheel.Cancel(handles[1]));
  EXPECT_TRUE(wheel.Cancel(handles[3]));
  EXPECT_THAT(Take(&wheel, 9), ElementsAre(2));
  for (const TimerHandle& handle : handles) EXPECT_FALSE(wheel.Cancel(handle));
}

TEST(CancellableWheelTest, G5_AHandleDoesNotReachTheNextUserOfItsNode) {
  Wheel wheel(0);
  const TimerHandle old = wheel.Add(10, 1);
  EXPECT_TRUE(wheel.Cancel(old));
  const TimerHandle fresh = wheel.Add(20, 2);
  EXPECT_EQ(fresh.index, old.index);
  EXPECT_FALSE(wheel.Cancel(old));
  EXPECT_THAT(Take(&wheel, 20), ElementsAre(2));
  wheel.Add(30, 3);
  EXPECT_FALSE(wheel.Cancel(fresh));
  EXPECT_THAT(Take(&wheel, 30), ElementsAre(3));
}

TEST(CancellableWheelTest, G5_NoneAndForeignHandlesCancelNothing) {
  Wheel wheel(0);
  EXPECT_TRUE(TimerHandle{}.none());
  EXPECT_FALSE(wheel.Cancel(TimerHandle{}));
  const TimerHandle handle = wheel.Add(10, 1);
  EXPECT_FALSE(handle.none());
  EXPECT_FALSE(wheel.Cancel(TimerHandle{.index = handle.index, .generation = 0}));
  EXPECT_FALSE(wheel.Cancel(TimerHandle{.index = handle.index + 1, .generation = 1}));
  EXPECT_FALSE(wheel.Cancel(TimerHandle{.index = 1u << 30, .generation = 1}));
  EXPECT_TRUE(wheel.Cancel(handle));
  EXPECT_FALSE(wheel.Cancel(TimerHandle{.index = handle.index, .generation = 0}));
  EXPECT_EQ(wheel.size(), 0u);
}

TEST(CancellableWheelTest, G9_CancelledAndHandedOutEntriesGiveTheirMemoryBack) {
  Wheel wheel(0);
  const size_t empty = wheel.bytes();
  constexpr int kCount = 100'000;
  size_t peak = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<TimerHandle> handles;
    for (int i = 0; i < kCount; ++i) {
      handles.push_back(wheel.Add(wheel.now() + kHour + static_cast<Tick>(i), i));
    }
    if (round == 0) peak = wheel.bytes();
    EXPECT_LE(wheel.bytes(), peak + peak / 10);
    std::shuffle(handles.begin(), handles.end(), std::mt19937(5));
    for (const TimerHandle& handle : handles) ASSERT_TRUE(wheel.Cancel(handle));
    EXPECT_EQ(wheel.size(), 0u);
    // A chunk of each slab stays.
    EXPECT_LT(wheel.bytes() - empty, 600'000u);
    for (int i = 0; i < kCount; ++i) wheel.Add(wheel.now() + static_cast<Tick>(i), i);
    EXPECT_LE(wheel.bytes(), peak + peak / 10);
    EXPECT_EQ(Drain(&wheel, wheel.now() + kCount, 1'000).size(), size_t{kCount});
    // A chunk of each slab stays.
    EXPECT_LT(wheel.bytes() - empty, 600'000u);
  }
}

TEST(CancellableWheelTest, G9_OneTimerMovedAMillionTimesTakesNoMemory) {
  for (const Tick delay : {Tick{3}, Tick{1'000}, Tick{30'000}, kHour, kYear}) {
    Wheel wheel(1'700'000'000'000);
    const size_t empty = wheel.bytes();
    // A crowd that stays, so that the sweeps have something to keep.
    constexpr int kCrowd = 500;
    for (int i = 0; i < kCrowd; ++i) wheel.Add(wheel.position() + kHour + static_cast<Tick>(i), i);
    TimerHandle handle = wheel.Add(wheel.position() + delay, -1);
    size_t dead_max = 0;
    for (Tick i = 0; i < 1'000'000; ++i) {
      EXPECT_TRUE(wheel.Cancel(handle));
      handle = wheel.Add(wheel.position() + delay + i % 5'000, -1);
      dead_max = std::max(dead_max, wheel.dead());
    }
    EXPECT_LE(dead_max, 2 * (kCrowd + 1 + Wheel::kDeadMin)) << delay;
    EXPECT_LE(wheel.bytes(), empty + 1'000'000) << delay;
    wheel.CheckInvariants();
    EXPECT_EQ(wheel.size(), size_t{kCrowd + 1});
    EXPECT_EQ(Drain(&wheel, wheel.position() + 2 * kYear, 100).size(), size_t{kCrowd + 1});
  }
}

TEST(CancellableWheelTest, NextDueMayBeThatOfACancelledOneButNeverLater) {
  Wheel wheel(5);
  const TimerHandle far = wheel.Add(kYear, 1);
  const TimerHandle near = wheel.Add(100, 2);
  const TimerHandle late = wheel.Add(3, 3);
  EXPECT_EQ(wheel.NextDue(), 3u);
  wheel.Cancel(late);
  EXPECT_LE(wheel.NextDue(), 100u);
  EXPECT_LT(wheel.now(), 100u);
  wheel.Cancel(near);
  EXPECT_LE(wheel.NextDue(), kYear);
  EXPECT_THAT(Take(&wheel, 200), IsEmpty());
  EXPECT_EQ(wheel.NextDue(), kYear);
  EXPECT_EQ(wheel.now(), 200u);
  wheel.Cancel(far);
  EXPECT_EQ(wheel.NextDue(), kNever);
}

TEST(CancellableWheelTest, ClearDropsEverythingAndKeepsThePosition) {
  Wheel wheel(0);
  std::vector<TimerHandle> handles;
  for (int i = 0; i < 100; ++i) handles.push_back(wheel.Add(69'632 + static_cast<Tick>(i), i));
  handles.push_back(wheel.Add(kYear, 100));
  Take(&wheel, 69'632, 7);
  wheel.Clear();
  wheel.CheckInvariants();
  EXPECT_EQ(wheel.size(), 0u);
  EXPECT_EQ(wheel.position(), 69'631u);
  EXPECT_EQ(wheel.NextDue(), kNever);
  for (const TimerHandle& handle : handles) EXPECT_FALSE(wheel.Cancel(handle));
  for (int i = 0; i < 3; ++i) wheel.Add(69'632, i);
  for (const TimerHandle& handle : handles) EXPECT_FALSE(wheel.Cancel(handle));
  EXPECT_THAT(Take(&wheel, 69'632), ElementsAre(0, 1, 2));
}

// go-zero loses a task that is moved and then removed, and runs one twice that is moved to now
// (issues 205 and 5316). Here a move is a cancel and an add, and each handle stands for itself.
TEST(CancellableWheelPeersTest, GoZero_MoveThenRemove) {
  Wheel wheel(0);
  TimerHandle handle = wheel.Add(100, 1);
  wheel.Add(100, 2);
  for (const Tick due : {Tick{70'000}, Tick{50}, Tick{0}}) {
    EXPECT_TRUE(wheel.Cancel(handle));
    handle = wheel.Add(due, 1);
  }
  EXPECT_THAT(Take(&wheel, 1), ElementsAre(1));
  EXPECT_FALSE(wheel.Cancel(handle));
  handle = wheel.Add(60, 3);
  EXPECT_TRUE(wheel.Cancel(handle));
  EXPECT_FALSE(wheel.Cancel(handle));
  EXPECT_THAT(Take(&wheel, 100'000), ElementsAre(2));
}

// Netty counts a task twice that is cancelled in the tick that expires it (issue 14959).
TEST(CancellableWheelPeersTest, Netty_CancelInTheTickThatExpiresCountsOnce) {
  Wheel wheel(0);
  const TimerHandle first = wheel.Add(10, 1);
  const TimerHandle second = wheel.Add(10, 2);
  EXPECT_THAT(Take(&wheel, 10, 1), ElementsAre(1));
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_FALSE(wheel.Cancel(first));
  EXPECT_EQ(wheel.size(), 1u);
  EXPECT_TRUE(wheel.Cancel(second));
  EXPECT_EQ(wheel.size(), 0u);
}

// Kafka may put a cancelled task back while it moves between its levels.
TEST(CancellableWheelPeersTest, Kafka_ACancelledEntryDoesNotComeBackFromACascade) {
  Wheel wheel(0);
  std::vector<TimerHandle> handles;
  for (int i = 0; i < 50; ++i) handles.push_back(wheel.Add(100'000 + static_cast<Tick>(i), i));
  std::vector<Wheel::Expired> out;
  for (size_t i = 0; i < handles.size(); ++i) {
    wheel.Advance(99'999, 1, &out);
    ASSERT_THAT(out, IsEmpty());
    EXPECT_TRUE(wheel.Cancel(handles[(i * 7) % handles.size()]));
    wheel.CheckInvariants();
  }
  EXPECT_THAT(Drain(&wheel, 100'050, 1), IsEmpty());
  EXPECT_EQ(wheel.dead(), 0u);
}

}  // namespace
}  // namespace duetime::wheel
