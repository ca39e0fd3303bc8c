// SPDX-License-Identifier: Apache-2.0
//
// Cancelling: one test for each guarantee of cancellable_wheel.h, and for bugs of other wheels.
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

constexpr Tick kHour = 3'600'000;
constexpr Tick kYear = 365 * 24 * kHour;

// A wheel and the owner of its stamps: things with a value each.
class Wheel {
  struct FindStamp {
    Wheel* wheel;
    TimerStamp* operator()(size_t thing) const {
      return wheel->things_[thing].gone ? nullptr : &wheel->things_[thing].stamp;
    }
  };

 public:
  using Timers = CancellableWheel<size_t, FindStamp>;

  explicit Wheel(Tick now) : wheel_(now, FindStamp{this}) {}

  // Adds an entry for a new thing and returns the thing's number.
  size_t Add(Tick due, int value) {
    things_.push_back({.value = value, .stamp = {}});
    AddAgain(due, things_.size() - 1);
    return things_.size() - 1;
  }
  void AddAgain(Tick due, size_t thing) { wheel_.Add(due, thing, &things_[thing].stamp); }
  bool Cancel(size_t thing) { return wheel_.Cancel(&things_[thing].stamp); }
  bool HasTimer(size_t thing) const { return !things_[thing].stamp.none(); }
  // REQUIRES: the thing has no timer.
  void Destroy(size_t thing) { things_[thing].gone = true; }

  // Advances once and returns the entries that were handed out.
  std::vector<int> Take(Tick now, size_t budget = 1'000'000) {
    std::vector<int> values;
    TakeSome(now, budget, &values);
    wheel_.CheckInvariants();
    return values;
  }

  // Advances until everything due is handed out.
  std::vector<int> Drain(Tick now, size_t budget) {
    std::vector<int> values;
    while (!TakeSome(now, budget, &values)) continue;
    return values;
  }

  const Timers* operator->() const { return &wheel_; }

 private:
  struct Thing {
    int value;
    TimerStamp stamp;
    bool gone = false;
  };

  bool TakeSome(Tick now, size_t budget, std::vector<int>* values) {
    std::vector<Timers::Expired> out;
    const bool done = wheel_.Advance(now, budget, &out);
    for (const Timers::Expired& expired : out) {
      EXPECT_LE(expired.due, std::max(now, wheel_.position()));
      EXPECT_FALSE(HasTimer(expired.entry));
      values->push_back(things_[expired.entry].value);
    }
    return done;
  }

  std::vector<Thing> things_;
  Timers wheel_;
};

TEST(CancellableWheelTest, G5_CancelInEveryLevelAndPlaceOfTheList) {
  for (const Tick delay :
       {Tick{1}, Tick{200}, Tick{60'000}, kHour, kYear, Tick{1} << 50, Tick{1} << 60, kNever - 1}) {
    for (size_t victim = 0; victim < 3; ++victim) {
      Wheel wheel(0);
      std::vector<size_t> things;
      for (int i = 0; i < 3; ++i) things.push_back(wheel.Add(delay, i));
      EXPECT_TRUE(wheel.Cancel(things[victim]));
      wheel->CheckInvariants();
      EXPECT_FALSE(wheel.Cancel(things[victim]));
      std::vector<int> expected{0, 1, 2};
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(victim));
      EXPECT_EQ(wheel.Take(delay), expected);
    }
  }
}

TEST(CancellableWheelTest, G5_CancelWhileTheSlotIsBeingCascaded) {
  constexpr Tick kDue = 70'000;
  // By then the cascade has moved the entry at 0, but not the one at 4.
  for (const size_t victim : {size_t{0}, size_t{1}, size_t{4}}) {
    Wheel wheel(0);
    std::vector<size_t> things;
    for (int i = 0; i < 5; ++i) things.push_back(wheel.Add(kDue, i));
    EXPECT_THAT(wheel.Take(kDue, 1), IsEmpty());
    EXPECT_TRUE(wheel.Cancel(things[victim]));
    wheel->CheckInvariants();
    std::vector<int> expected{0, 1, 2, 3, 4};
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(victim));
    EXPECT_EQ(wheel.Drain(kDue, 1), expected);
  }
}

TEST(CancellableWheelTest, G5_CancellingAllOfACascadeLeavesNothing) {
  Wheel wheel(0);
  const size_t moved = wheel.Add(70'000, 0);
  const size_t waiting = wheel.Add(70'000, 1);
  EXPECT_THAT(wheel.Take(69'632, 1), IsEmpty());
  EXPECT_TRUE(wheel.Cancel(waiting));
  EXPECT_TRUE(wheel.Cancel(moved));
  EXPECT_EQ(wheel->NextDue(), kNever);
  wheel.Add(70'000, 2);
  EXPECT_LE(wheel->NextDue(), 70'000u);
  EXPECT_THAT(wheel.Take(70'000), ElementsAre(2));
}

TEST(CancellableWheelTest, G5_CancelInTheMiddleOfATick) {
  Wheel wheel(0);
  std::vector<size_t> things;
  for (int i = 0; i < 4; ++i) things.push_back(wheel.Add(9, i));
  EXPECT_THAT(wheel.Take(9, 1), ElementsAre(0));
  EXPECT_FALSE(wheel.Cancel(things[0]));
  EXPECT_TRUE(wheel.Cancel(things[1]));
  EXPECT_TRUE(wheel.Cancel(things[3]));
  EXPECT_THAT(wheel.Take(9), ElementsAre(2));
  for (const size_t thing : things) EXPECT_FALSE(wheel.Cancel(thing));
}

TEST(CancellableWheelTest, G5_ADeadEntryDoesNotStandForTheNextTimerOfItsThing) {
  Wheel wheel(0);
  const size_t thing = wheel.Add(10, 1);
  EXPECT_TRUE(wheel.Cancel(thing));
  wheel.AddAgain(20, thing);
  EXPECT_THAT(wheel.Take(10), IsEmpty());
  EXPECT_TRUE(wheel.HasTimer(thing));
  EXPECT_THAT(wheel.Take(20), ElementsAre(1));
  EXPECT_FALSE(wheel.HasTimer(thing));
  EXPECT_FALSE(wheel.Cancel(thing));
  wheel.AddAgain(30, thing);
  EXPECT_TRUE(wheel.Cancel(thing));
  EXPECT_THAT(wheel.Take(30), IsEmpty());
}

TEST(CancellableWheelTest, G5_AStampThatIsNoneCancelsNothing) {
  Wheel wheel(0);
  TimerStamp stamp;
  EXPECT_TRUE(stamp.none());
  const size_t thing = wheel.Add(10, 1);
  EXPECT_TRUE(wheel.Cancel(thing));
  EXPECT_FALSE(wheel.Cancel(thing));
  EXPECT_EQ(wheel->size(), 0u);
}

TEST(CancellableWheelTest, AThingMayGoWhenItsTimerIsCancelled) {
  Wheel wheel(0);
  const size_t thing = wheel.Add(10, 1);
  wheel.Add(10, 2);
  EXPECT_TRUE(wheel.Cancel(thing));
  wheel.Destroy(thing);
  EXPECT_THAT(wheel.Take(10), ElementsAre(2));
  EXPECT_EQ(wheel->dead(), 0u);
}

TEST(CancellableWheelTest, G9_CancelledAndHandedOutEntriesGiveTheirMemoryBack) {
  Wheel wheel(0);
  const size_t empty = wheel->bytes();
  constexpr int kCount = 100'000;
  size_t peak = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<size_t> things;
    for (int i = 0; i < kCount; ++i) {
      things.push_back(wheel.Add(wheel->now() + kHour + static_cast<Tick>(i), i));
    }
    if (round == 0) peak = wheel->bytes();
    EXPECT_LE(wheel->bytes(), peak + peak / 10);
    std::shuffle(things.begin(), things.end(), std::mt19937(5));
    for (const size_t thing : things) ASSERT_TRUE(wheel.Cancel(thing));
    EXPECT_EQ(wheel->size(), 0u);
    // One chunk of each slab stays allocated.
    EXPECT_LT(wheel->bytes() - empty, 600'000u);
    for (int i = 0; i < kCount; ++i) wheel.Add(wheel->now() + static_cast<Tick>(i), i);
    EXPECT_LE(wheel->bytes(), peak + peak / 10);
    EXPECT_EQ(wheel.Drain(wheel->now() + kCount, 1'000).size(), size_t{kCount});
    // One chunk of each slab stays allocated.
    EXPECT_LT(wheel->bytes() - empty, 600'000u);
  }
}

TEST(CancellableWheelTest, G9_OneTimerMovedAMillionTimesTakesNoMemory) {
  for (const Tick delay : {Tick{3}, Tick{1'000}, Tick{30'000}, kHour, kYear}) {
    Wheel wheel(1'700'000'000'000);
    const size_t empty = wheel->bytes();
    // Entries that stay, so that the sweeps have something to keep.
    constexpr int kCrowd = 500;
    for (int i = 0; i < kCrowd; ++i) wheel.Add(wheel->position() + kHour + static_cast<Tick>(i), i);
    size_t thing = wheel.Add(wheel->position() + delay, -1);
    size_t dead_max = 0;
    for (Tick i = 0; i < 1'000'000; ++i) {
      EXPECT_TRUE(wheel.Cancel(thing));
      wheel.AddAgain(wheel->position() + delay + i % 5'000, thing);
      dead_max = std::max(dead_max, wheel->dead());
    }
    EXPECT_LE(dead_max, 2 * (kCrowd + 1 + Wheel::Timers::kDeadMin)) << delay;
    EXPECT_LE(wheel->bytes(), empty + 1'000'000) << delay;
    wheel->CheckInvariants();
    EXPECT_EQ(wheel->size(), size_t{kCrowd + 1});
    EXPECT_EQ(wheel.Drain(wheel->position() + 2 * kYear, 100).size(), size_t{kCrowd + 1});
  }
}

TEST(CancellableWheelTest, NextDueMayBeThatOfACancelledOneButNeverLater) {
  Wheel wheel(5);
  const size_t far = wheel.Add(kYear, 1);
  const size_t near = wheel.Add(100, 2);
  const size_t late = wheel.Add(3, 3);
  EXPECT_EQ(wheel->NextDue(), 3u);
  wheel.Cancel(late);
  EXPECT_LE(wheel->NextDue(), 100u);
  EXPECT_LT(wheel->now(), 100u);
  wheel.Cancel(near);
  EXPECT_LE(wheel->NextDue(), kYear);
  EXPECT_THAT(wheel.Take(200), IsEmpty());
  EXPECT_EQ(wheel->NextDue(), kYear);
  EXPECT_EQ(wheel->now(), 200u);
  wheel.Cancel(far);
  EXPECT_EQ(wheel->NextDue(), kNever);
}

// go-zero loses a task that is moved and then removed, and runs a task twice that is moved to now
// (issues 205 and 5316). Here a move is a cancel and an add.
TEST(CancellableWheelPeersTest, GoZero_MoveThenRemove) {
  Wheel wheel(0);
  size_t thing = wheel.Add(100, 1);
  wheel.Add(100, 2);
  for (const Tick due : {Tick{70'000}, Tick{50}, Tick{0}}) {
    EXPECT_TRUE(wheel.Cancel(thing));
    wheel.AddAgain(due, thing);
  }
  EXPECT_THAT(wheel.Take(1), ElementsAre(1));
  EXPECT_FALSE(wheel.Cancel(thing));
  wheel.AddAgain(60, thing);
  EXPECT_TRUE(wheel.Cancel(thing));
  EXPECT_FALSE(wheel.Cancel(thing));
  EXPECT_THAT(wheel.Take(100'000), ElementsAre(2));
}

// Netty counts a task twice if it is cancelled in the tick that expires it (issue 14959).
TEST(CancellableWheelPeersTest, Netty_CancelInTheTickThatExpiresCountsOnce) {
  Wheel wheel(0);
  const size_t first = wheel.Add(10, 1);
  const size_t second = wheel.Add(10, 2);
  EXPECT_THAT(wheel.Take(10, 1), ElementsAre(1));
  EXPECT_EQ(wheel->size(), 1u);
  EXPECT_FALSE(wheel.Cancel(first));
  EXPECT_EQ(wheel->size(), 1u);
  EXPECT_TRUE(wheel.Cancel(second));
  EXPECT_EQ(wheel->size(), 0u);
}

// Kafka may put a cancelled task back during a move between levels.
TEST(CancellableWheelPeersTest, Kafka_ACancelledEntryDoesNotComeBackFromACascade) {
  Wheel wheel(0);
  std::vector<size_t> things;
  for (int i = 0; i < 50; ++i) things.push_back(wheel.Add(100'000 + static_cast<Tick>(i), i));
  for (size_t i = 0; i < things.size(); ++i) {
    ASSERT_THAT(wheel.Take(99'999, 1), IsEmpty());
    EXPECT_TRUE(wheel.Cancel(things[(i * 7) % things.size()]));
    wheel->CheckInvariants();
  }
  EXPECT_THAT(wheel.Drain(100'050, 1), IsEmpty());
  EXPECT_EQ(wheel->dead(), 0u);
}

}  // namespace
}  // namespace duetime::wheel
