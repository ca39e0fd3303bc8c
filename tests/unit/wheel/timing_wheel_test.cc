// SPDX-License-Identifier: Apache-2.0
//
// One test for each guarantee of timing_wheel.h, with its number.
#include "server/wheel/timing_wheel.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::wheel {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Wheel = TimingWheel<int>;
constexpr Tick kHour = 3'600'000;
constexpr Tick kYear = 365 * 24 * kHour;
constexpr size_t kAll = 1'000'000;

// Advances once and returns the entries that were handed out.
std::vector<int> Take(Wheel* wheel, Tick now, size_t budget = kAll) {
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

// Advances until everything due is handed out.
std::vector<int> Drain(Wheel* wheel, Tick now, size_t budget) {
  std::vector<int> entries;
  for (;;) {
    std::vector<Wheel::Expired> out;
    const bool done = wheel->Advance(now, budget, &out);
    EXPECT_LE(out.size(), budget);
    for (const Wheel::Expired& expired : out) entries.push_back(expired.entry);
    if (done) return entries;
  }
}

TEST(TimingWheelTest, G1_EachEntryIsHandedOutExactlyOnce) {
  Wheel wheel(123'456'789);
  std::mt19937_64 random(1);
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) wheel.Add(wheel.now() + (random() >> (20 + random() % 44)), i);
  ASSERT_EQ(wheel.size(), size_t{kCount});
  std::vector<int> seen(kCount);
  while (wheel.size() > 0) {
    for (const int entry : Drain(&wheel, wheel.NextDue() + random() % 1000, 1 + random() % 100)) {
      ++seen[static_cast<size_t>(entry)];
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kCount);
  EXPECT_THAT(Take(&wheel, kNever - 1), IsEmpty());
}

TEST(TimingWheelTest, G1_LateEntryIsHandedOutByTheNextAdvance) {
  Wheel wheel(1'000);
  wheel.Add(1'000, 1);
  wheel.Add(0, 2);
  EXPECT_THAT(Take(&wheel, 1'000), ElementsAre(1, 2));
  EXPECT_THAT(Take(&wheel, 5'000), IsEmpty());
  wheel.Add(4'999, 3);
  EXPECT_THAT(Take(&wheel, 5'000), ElementsAre(3));
}

TEST(TimingWheelTest, G1_EntryAddedToTheTickBeingHandedOutComesWithIt) {
  Wheel wheel(0);
  wheel.Add(10, 1);
  wheel.Add(10, 2);
  EXPECT_THAT(Take(&wheel, 10, 1), ElementsAre(1));
  wheel.Add(10, 3);
  EXPECT_THAT(Take(&wheel, 10, 1), ElementsAre(2));
  wheel.Add(10, 4);
  EXPECT_THAT(Take(&wheel, 10), ElementsAre(3, 4));
}

TEST(TimingWheelTest, G1_EntryAddedWhileItsTimeIsBeingCascadedIsNotLost) {
  Wheel wheel(0);
  for (int i = 0; i < 5; ++i) wheel.Add(70'000 + static_cast<Tick>(i), i);
  // Two calls with a budget of one: the cascade of the slot of 69,632..71,679 has begun.
  EXPECT_THAT(Take(&wheel, 70'010, 1), IsEmpty());
  EXPECT_THAT(Take(&wheel, 70'010, 1), IsEmpty());
  wheel.Add(70'000, 5);
  wheel.Add(69'632, 6);
  wheel.Add(3, 7);
  wheel.Add(71'680, 8);
  EXPECT_THAT(Drain(&wheel, 70'010, 1), ElementsAre(7, 6, 0, 5, 1, 2, 3, 4));
  EXPECT_THAT(Drain(&wheel, 71'680, 1), ElementsAre(8));
}

TEST(TimingWheelTest, G2_NothingIsEarlyAndNothingLate) {
  std::mt19937_64 random(2);
  Wheel wheel(kYear);
  for (int i = 0; i < 3'000; ++i) {
    const Tick due = wheel.now() + 1 + (random() >> (20 + random() % 44));
    wheel.Add(due, i);
    EXPECT_THAT(Take(&wheel, due - 1), IsEmpty());
    EXPECT_THAT(Take(&wheel, due), ElementsAre(i));
  }
}

TEST(TimingWheelTest, G3_SameTickKeepsInsertionOrder) {
  Wheel wheel(0);
  for (int i = 0; i < 1'000; ++i) wheel.Add(77, i);
  std::vector<int> expected(1'000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(Take(&wheel, 77), expected);
}

TEST(TimingWheelTest, G3_SameTickKeepsInsertionOrderAcrossLevels) {
  // Entries with one due time, added from nearer and nearer, so that each is on another level.
  constexpr Tick kDue = (Tick{3} << 32) + (Tick{5} << 24) + 123'456;
  Wheel wheel(0);
  int next = 0;
  for (const Tick before : {kDue, kDue - 1'000, Tick{1} << 30, Tick{1} << 20, Tick{1} << 16,
                            Tick{5'000}, Tick{300}, Tick{10}, Tick{1}, Tick{0}}) {
    EXPECT_THAT(Take(&wheel, kDue - std::max(before, Tick{1})), IsEmpty());
    wheel.Add(kDue, next++);
    wheel.Add(kDue, next++);
  }
  std::vector<int> expected(static_cast<size_t>(next));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(Drain(&wheel, kDue, 3), expected);
}

TEST(TimingWheelTest, G3_EarlierDueComesFirstWhateverTheOrderOfInsertion) {
  Wheel wheel(0);
  std::mt19937_64 random(3);
  std::vector<std::pair<Tick, int>> expected;
  for (int i = 0; i < 5'000; ++i) {
    expected.emplace_back(1 + random() % 100'000, i);
    wheel.Add(expected.back().first, i);
  }
  std::sort(expected.begin(), expected.end());
  const std::vector<int> entries = Take(&wheel, 100'000);
  ASSERT_EQ(entries.size(), expected.size());
  for (size_t i = 0; i < entries.size(); ++i) ASSERT_EQ(entries[i], expected[i].second);
}

TEST(TimingWheelTest, G3_LateEntryComesAfterOlderOnesOfTheOpenTickAndBeforeLaterTicks) {
  Wheel wheel(0);
  wheel.Add(10, 1);
  wheel.Add(10, 2);
  wheel.Add(11, 3);
  EXPECT_THAT(Take(&wheel, 20, 1), ElementsAre(1));
  EXPECT_EQ(wheel.position(), 10u);
  wheel.Add(4, 4);
  wheel.Add(3, 5);
  wheel.Add(10, 6);
  EXPECT_THAT(Take(&wheel, 20), ElementsAre(2, 4, 5, 6, 3));
}

TEST(TimingWheelTest, G3_AnEntryAddedDuringACascadeDoesNotOvertakeWhatIsNotMovedYet) {
  Wheel wheel(0);
  for (int i = 0; i < 5; ++i) wheel.Add(70'000, i);
  EXPECT_THAT(Take(&wheel, 70'000, 2), IsEmpty());
  EXPECT_EQ(wheel.now(), 69'631u);  // two of five have moved
  wheel.Add(70'000, 5);
  EXPECT_THAT(Take(&wheel, 70'000, 1), IsEmpty());
  wheel.Add(70'000, 6);
  EXPECT_THAT(Drain(&wheel, 70'000, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(TimingWheelTest, G4_ABudgetOfOneDoesEverythingInSmallSteps) {
  Wheel wheel(0);
  std::mt19937_64 random(4);
  constexpr size_t kCount = 2'000;
  for (size_t i = 0; i < kCount; ++i) wheel.Add(random() >> (8 + random() % 56), 0);
  size_t calls = 0;
  size_t handed_out = 0;
  for (bool done = false; !done; ++calls) {
    std::vector<Wheel::Expired> out;
    done = wheel.Advance(kNever - 1, 1, &out);
    ASSERT_LE(out.size(), 1u);
    handed_out += out.size();
  }
  EXPECT_EQ(handed_out, kCount);
  EXPECT_LE(calls, 8 * kCount + 1);
}

TEST(TimingWheelTest, G4_TheBudgetCountsCascadesToo) {
  // 1,000 entries in one slot of level 2, each of which moves twice and is then handed out.
  constexpr Tick kStart = Tick{1} << 22;
  Wheel wheel(0);
  for (int i = 0; i < 1'000; ++i) wheel.Add(kStart + 2'048 + static_cast<Tick>(i % 256), i);
  EXPECT_THAT(Take(&wheel, kStart * 2 - 1, 1'000), IsEmpty());
  EXPECT_THAT(Take(&wheel, kStart * 2 - 1, 1'000), IsEmpty());
  EXPECT_THAT(Take(&wheel, kStart * 2 - 1, 1'000), ::testing::SizeIs(1'000));
}

TEST(TimingWheelTest, G4_ReturnsTrueExactlyWhenNothingIsLeft) {
  Wheel wheel(0);
  std::vector<Wheel::Expired> out;
  for (int i = 0; i < 3; ++i) wheel.Add(5, i);
  EXPECT_FALSE(wheel.Advance(5, 1, &out));
  EXPECT_FALSE(wheel.Advance(5, 1, &out));
  EXPECT_TRUE(wheel.Advance(5, 1, &out));
  EXPECT_EQ(out.size(), 3u);
  EXPECT_TRUE(wheel.Advance(5, 1, &out));
}

TEST(TimingWheelTest, G4_AStoppedAdvanceGoesOnWithALaterNow) {
  Wheel wheel(0);
  for (int i = 0; i < 4; ++i) wheel.Add(5 + static_cast<Tick>(i), i);
  EXPECT_THAT(Take(&wheel, 6, 1), ElementsAre(0));
  EXPECT_THAT(Take(&wheel, 7, 1), ElementsAre(1));
  EXPECT_THAT(Take(&wheel, 100), ElementsAre(2, 3));
}

// A crowd in one tick, with nothing before it. The wheel moves the crowd down a little at each
// tick, and no call does more work than the one that hands it out.
TEST(TimingWheelTest, G4_ACrowdIsMovedDownBeforeItIsDue) {
  constexpr Tick kDue = 1'000'000;
  constexpr size_t kBudget = 128;
  for (const Tick delay : {Tick{3'000}, Tick{10'000}, kHour * 3}) {
    Wheel wheel(kDue - delay);
    for (int i = 0; i < 100'000; ++i) wheel.Add(kDue, i);
    std::vector<Wheel::Expired> out;
    for (Tick now = kDue - delay; now < kDue; ++now) {
      ASSERT_TRUE(wheel.Advance(now, kBudget, &out));
      if (now % 64 == 0) wheel.CheckInvariants();
    }
    ASSERT_THAT(out, IsEmpty());
    ASSERT_FALSE(wheel.Advance(kDue, kBudget, &out));
    EXPECT_EQ(out.size(), kBudget);
  }
}

// The same for a crowd that is added when its window is already the next.
TEST(TimingWheelTest, G4_ACrowdForTheNextWindowIsNoticed) {
  constexpr Tick kWindow = 2'048;
  constexpr size_t kBudget = 256;
  Wheel wheel(10 * kWindow);
  std::vector<Wheel::Expired> out;
  // This entry keeps the wheel from filing the next window before the crowd comes.
  wheel.Add(11 * kWindow + 100, -1);
  for (int i = 0; i < 65; ++i) wheel.Add(11 * kWindow + 2'000, -2);
  ASSERT_TRUE(wheel.Advance(10 * kWindow + 1, 1, &out));
  for (int i = 0; i < 100'000; ++i) wheel.Add(11 * kWindow + 5, i);
  for (Tick now = 10 * kWindow + 2; now < 11 * kWindow + 5; ++now) {
    ASSERT_TRUE(wheel.Advance(now, kBudget, &out)) << now - 10 * kWindow;
  }
  ASSERT_FALSE(wheel.Advance(11 * kWindow + 5, kBudget, &out));
  EXPECT_EQ(out.size(), kBudget);
}

// The same for a caller that sleeps, if the budget is the one that kAheadPerTick assumes.
TEST(TimingWheelTest, G4_ASleeperIsWokenToMoveACrowdDown) {
  constexpr Tick kDue = 10 * kHour;
  for (const int crowd : {10, 1'000, 5'000, 200'000}) {
    Wheel wheel(0);
    for (int i = 0; i < crowd; ++i) wheel.Add(kDue - 1 + static_cast<Tick>(i % 2), i);
    std::vector<Wheel::Expired> out;
    int wake_ups = 0;
    for (Tick now = wheel.NextDue(); now < kDue - 1; now = wheel.NextDue(), ++wake_ups) {
      ASSERT_GT(now, wheel.position());
      // When time reaches a slot, the wheel may move it down in one call only if its crowd is
      // small.
      ASSERT_TRUE(wheel.Advance(now, 2'048, &out)) << crowd;
    }
    ASSERT_THAT(out, IsEmpty());
    EXPECT_LE(wake_ups, 8 + 2 * crowd / 1'000);
    wheel.Advance(kDue - 1, 2'048, &out);
    EXPECT_EQ(out.size(), static_cast<size_t>(std::min(crowd / 2, 2'048)));
  }
}

TEST(TimingWheelTest, G6_NowIsTheLastTickThatIsCompletelyHandedOut) {
  Wheel wheel(100);
  EXPECT_EQ(wheel.now(), 100u);
  for (int i = 0; i < 2; ++i) wheel.Add(200, i);
  wheel.Add(300, 2);
  Take(&wheel, 150);
  EXPECT_EQ(wheel.now(), 150u);
  Take(&wheel, 250, 1);
  EXPECT_EQ(wheel.now(), 199u);
  EXPECT_EQ(wheel.position(), 200u);
  Take(&wheel, 250, 1);
  EXPECT_EQ(wheel.now(), 250u);
}

TEST(TimingWheelTest, G6_NowDoesNotCoverALateEntryThatStillWaits) {
  Wheel wheel(1'000);
  wheel.Add(990, 1);
  EXPECT_EQ(wheel.now(), 989u);
  wheel.Add(500, 2);
  EXPECT_EQ(wheel.now(), 499u);
  EXPECT_EQ(wheel.position(), 1'000u);
  Take(&wheel, 1'000);
  EXPECT_EQ(wheel.now(), 1'000u);
  // Late entries that were handed out do not delay the next one.
  wheel.Add(1'000, 3);
  EXPECT_EQ(wheel.now(), 999u);
}

TEST(TimingWheelTest, G6_NowWaitsForACascade) {
  Wheel wheel(0);
  wheel.Add(65'536, 1);
  wheel.Add(65'537, 2);
  Take(&wheel, 65'600, 1);
  EXPECT_EQ(wheel.now(), 65'535u);
  Take(&wheel, 65'600, 2);
  EXPECT_EQ(wheel.now(), 65'536u);
  Take(&wheel, 65'600, 1);
  EXPECT_EQ(wheel.now(), 65'600u);
}

// Counts the wake-ups of a caller that sleeps until NextDue, until `count` entries are handed out.
int CountWakeUps(Wheel* wheel, size_t count) {
  int wake_ups = 0;
  while (count > 0) {
    const Tick next = wheel->NextDue();
    EXPECT_GT(next, wheel->now());
    count -= Take(wheel, next).size();
    ++wake_ups;
  }
  return wake_ups;
}

TEST(TimingWheelTest, G7_ALoneTimerCostsOneWakeUpHoweverFar) {
  for (const Tick delay :
       {Tick{1}, Tick{2'047}, Tick{2'048}, Tick{60'000}, kHour, kYear, 100 * kYear}) {
    Wheel wheel(1'700'000'000'000);
    wheel.Add(wheel.now() + delay, 1);
    EXPECT_EQ(CountWakeUps(&wheel, 1), 1) << delay;
  }
}

TEST(TimingWheelTest, G7_ACrowdFarAwayCostsOneWakeUpPerLevel) {
  for (const Tick delay : {kHour, kYear, 100 * kYear}) {
    Wheel wheel(1'700'000'000'000);
    for (int i = 0; i < 100; ++i) wheel.Add(wheel.now() + delay, i);
    EXPECT_LE(CountWakeUps(&wheel, 100), 6) << delay;
  }
}

TEST(TimingWheelTest, G7_NextDueIsNeverLaterThanTheEarliest) {
  Wheel wheel(5);
  EXPECT_EQ(wheel.NextDue(), kNever);
  wheel.Add(kYear, 1);
  EXPECT_EQ(wheel.NextDue(), kYear);
  wheel.Add(100, 2);
  EXPECT_EQ(wheel.NextDue(), 100u);
  wheel.Add(3, 3);
  EXPECT_EQ(wheel.NextDue(), 3u);
  wheel.Add(4, 4);
  EXPECT_EQ(wheel.NextDue(), 3u);
  Take(&wheel, 5);
  EXPECT_EQ(wheel.NextDue(), 100u);
  Take(&wheel, 100);
  EXPECT_EQ(wheel.NextDue(), kYear);
  Take(&wheel, kYear);
  EXPECT_EQ(wheel.NextDue(), kNever);
}

TEST(TimingWheelTest, G8_EmptyTimeIsFree) {
  // A walk over every tick would take longer than the age of the universe.
  Wheel wheel(0);
  wheel.Add(kNever - 1, 1);
  for (Tick now = 0; now < 1'000'000 * kYear; now += kYear) {
    std::vector<Wheel::Expired> out;
    ASSERT_TRUE(wheel.Advance(now, 1, &out));
    ASSERT_THAT(out, IsEmpty());
  }
  EXPECT_THAT(Drain(&wheel, kNever - 1, 1), ElementsAre(1));
}

}  // namespace
}  // namespace duetime::wheel
