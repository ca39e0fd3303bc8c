// SPDX-License-Identifier: Apache-2.0
//
// Tests the edges of slots, levels and time itself, and bugs of other timing wheels.
#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/wheel/timing_wheel.h"
#include "tests/support/wheel_model.h"

namespace duetime::wheel {
namespace {

using test::CheckedWheel;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Wheel = TimingWheel<int>;
constexpr Tick kMax = kNever - 1;
constexpr Tick kHourTicks = 3'600'000;

std::vector<int> Expire(Wheel* wheel, Tick now, size_t budget = 1'000'000) {
  std::vector<Wheel::Expired> out;
  wheel->Advance(now, budget, &out);
  wheel->CheckInvariants();
  std::vector<int> entries;
  for (const Wheel::Expired& expired : out) entries.push_back(expired.entry);
  return entries;
}

// Times around each edge of a slot, a window and a ring.
std::vector<Tick> EdgeTicks() {
  std::vector<Tick> ticks{0, 1, 2, kMax - 2'048, kMax - 2'047, kMax - 1, kMax};
  for (const uint32_t bits : {11u, 12u, 22u, 23u, 29u, 36u, 43u, 50u, 57u}) {
    const Tick edge = Tick{1} << bits;
    for (const Tick tick : {edge - 2, edge - 1, edge, edge + 1, edge + 2'047, edge + 2'048,
                            2 * edge - 1, 2 * edge, 3 * edge - 1, 127 * edge + (edge - 1)}) {
      ticks.push_back(std::min(tick, kMax));
    }
  }
  std::sort(ticks.begin(), ticks.end());
  ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
  return ticks;
}

TEST(TimingWheelEdgesTest, EveryPairOfEdges) {
  const std::vector<Tick> ticks = EdgeTicks();
  ASSERT_GT(ticks.size(), 60u);
  for (const Tick start : ticks) {
    for (const Tick due : ticks) {
      Wheel wheel(start);
      wheel.Add(due, 1);
      ASSERT_LE(wheel.NextDue(), due);
      if (due > start) {
        ASSERT_THAT(Expire(&wheel, due - 1), IsEmpty()) << start << " to " << due;
      }
      ASSERT_THAT(Expire(&wheel, std::max(start, due)), ElementsAre(1)) << start << " to " << due;
      ASSERT_EQ(wheel.now(), std::max(start, due));
    }
  }
}

TEST(TimingWheelEdgesTest, AllEdgesAtOnceInOneJumpOrStepByStep) {
  std::vector<Tick> ticks = EdgeTicks();
  for (const size_t budget : {size_t{1}, size_t{2}, size_t{1000}}) {
    for (const bool one_jump : {true, false}) {
      std::shuffle(ticks.begin(), ticks.end(), std::mt19937(6));
      CheckedWheel<TimingWheel<uint64_t>> wheel(0);
      for (int twice = 0; twice < 2; ++twice) {
        for (const Tick tick : ticks) wheel.Add(tick);
      }
      if (!one_jump) {
        for (const Tick tick : EdgeTicks()) wheel.Drain(tick, budget);
      }
      wheel.Drain(kMax, budget);
      EXPECT_EQ(wheel.waiting(), 0u);
    }
  }
}

TEST(TimingWheelEdgesTest, TimeZero) {
  Wheel wheel(0);
  EXPECT_EQ(wheel.now(), 0u);
  wheel.Add(0, 1);
  EXPECT_EQ(wheel.now(), 0u);
  EXPECT_EQ(wheel.NextDue(), 0u);
  EXPECT_THAT(Expire(&wheel, 0), ElementsAre(1));
  EXPECT_THAT(Expire(&wheel, 0), IsEmpty());
}

TEST(TimingWheelEdgesTest, TheEndOfTime) {
  Wheel wheel(kMax - 1'000);
  wheel.Add(kMax, 1);
  wheel.Add(kMax - 1, 2);
  EXPECT_THAT(Expire(&wheel, kMax - 1), ElementsAre(2));
  wheel.Add(kMax, 3);
  EXPECT_EQ(wheel.NextDue(), kMax);
  EXPECT_THAT(Expire(&wheel, kMax), ElementsAre(1, 3));
  wheel.Add(kMax, 4);
  wheel.Add(0, 5);
  EXPECT_THAT(Expire(&wheel, kMax), ElementsAre(4, 5));
}

TEST(TimingWheelEdgesTest, AnEarlierNowHandsOutOnlyWhatTheWheelStandsAt) {
  Wheel wheel(1'990);
  for (int i = 0; i < 2; ++i) wheel.Add(2'000, i);
  wheel.Add(2'001, 2);
  EXPECT_THAT(Expire(&wheel, 3'000, 1), ElementsAre(0));
  EXPECT_THAT(Expire(&wheel, 500), ElementsAre(1));
  EXPECT_EQ(wheel.now(), 2'000u);
  EXPECT_THAT(Expire(&wheel, 2'001), ElementsAre(2));
}

TEST(TimingWheelEdgesTest, ASlotCanBeUsedAgainOnItsNextTurn) {
  // Times with this distance share a slot, or lie in neighbouring slots, on some level.
  for (const Tick step : {Tick{2'047}, Tick{2'048}, Tick{4'096}, Tick{1} << 22, Tick{1} << 23}) {
    Wheel wheel(0);
    for (int turn = 0; turn < 200; ++turn) {
      const Tick due = 10 + step * static_cast<Tick>(turn);
      wheel.Add(due, turn);
      wheel.Add(due + step, -turn);
      EXPECT_EQ(Expire(&wheel, due).size(), turn == 0 ? 1u : 2u);
    }
  }
}

TEST(TimingWheelEdgesTest, LateAdvancesOfAnySize) {
  for (uint32_t bits = 0; bits < 63; ++bits) {
    CheckedWheel<TimingWheel<uint64_t>> wheel(1'700'000'000'000);
    std::mt19937_64 random(bits);
    for (int i = 0; i < 200; ++i) {
      wheel.Add(wheel.wheel().position() + (random() >> (1 + random() % 63)) % (Tick{1} << bits));
    }
    wheel.Drain(wheel.wheel().position() + (Tick{1} << bits), 1 + random() % 20);
    EXPECT_EQ(wheel.waiting(), 0u);
  }
}

TEST(TimingWheelEdgesTest, EntriesUpTo32BytesTravelWhole) {
  struct Big {
    uint64_t words[4];
  };
  TimingWheel<Big> wheel(0);
  wheel.Add(300, Big{{1, 2, 3, 4}});
  std::vector<TimingWheel<Big>::Expired> out;
  wheel.Advance(300, 10, &out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_THAT(out[0].entry.words, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(out[0].due, 300u);
}

TEST(TimingWheelEdgesTest, OutIsAppendedTo) {
  Wheel wheel(0);
  std::vector<Wheel::Expired> out;
  wheel.Add(1, 1);
  wheel.Advance(1, 1, &out);
  wheel.Add(2, 2);
  wheel.Advance(2, 1, &out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1].entry, 2);
}

TEST(TimingWheelEdgesDeathTest, TheCallersDutiesAreChecked) {
  Wheel wheel(0);
  std::vector<Wheel::Expired> out;
  EXPECT_DEATH(wheel.Add(kNever, 1), "kNever");
  EXPECT_DEATH(wheel.Advance(kNever, 1, &out), "kNever");
  EXPECT_DEATH(wheel.Advance(1, 0, &out), "budget");
}

// go-zero's wheel fires a task one full turn late if its delay is a whole number of turns, because
// it counts slots from its position and compares no absolute time (issue 5510).
TEST(TimingWheelPeersTest, GoZero_NotOneTurnLateFromAnyOffset) {
  for (Tick start = 0; start < 4'200; start += 7) {
    for (const Tick delay :
         {Tick{2'047}, Tick{2'048}, Tick{2'049}, Tick{4'096}, Tick{1} << 22, Tick{1} << 29}) {
      Wheel wheel(start);
      wheel.Add(start + delay, 1);
      ASSERT_THAT(Expire(&wheel, start + delay - 1), IsEmpty());
      ASSERT_THAT(Expire(&wheel, start + delay), ElementsAre(1));
    }
  }
}

// If go-zero misses a tick, everything after it stays late (issue 3619). An old Netty computed
// wrong delays after a stall (issue 1959).
TEST(TimingWheelPeersTest, GoZeroAndNetty_AMissedTickDelaysNothing) {
  Wheel wheel(0);
  for (int i = 0; i < 100; ++i) wheel.Add(10 * static_cast<Tick>(i), i);
  EXPECT_EQ(Expire(&wheel, 5 * kHourTicks).size(), 100u);
  wheel.Add(5 * kHourTicks + 1, 100);
  EXPECT_THAT(Expire(&wheel, 5 * kHourTicks), IsEmpty());
  EXPECT_THAT(Expire(&wheel, 5 * kHourTicks + 1), ElementsAre(100));
}

// Wheels with a limited range clamp a time beyond it, as Linux does, or refuse it.
TEST(TimingWheelPeersTest, FarTimersAreNotClamped) {
  Wheel wheel(1'700'000'000'000);
  const Tick start = wheel.now();
  const std::vector<Tick> delays{Tick{1} << 32, (Tick{1} << 32) + 1, Tick{1} << 40, Tick{1} << 48,
                                 Tick{1} << 62};
  for (size_t i = 0; i < delays.size(); ++i) wheel.Add(start + delays[i], static_cast<int>(i));
  for (size_t i = 0; i < delays.size(); ++i) {
    EXPECT_THAT(Expire(&wheel, start + delays[i] - 1), IsEmpty());
    EXPECT_THAT(Expire(&wheel, start + delays[i]), ElementsAre(static_cast<int>(i)));
  }
}

}  // namespace
}  // namespace duetime::wheel
