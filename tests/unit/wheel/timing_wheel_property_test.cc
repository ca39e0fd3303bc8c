// SPDX-License-Identifier: Apache-2.0
//
// Compares random operations on a wheel with a sorted map. A failure prints the seed.
// DUETIME_SEED=<seed> repeats the run.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"

#include "server/wheel/cancellable_wheel.h"
#include "server/wheel/timing_wheel.h"
#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"
#include "tests/support/wheel_model.h"

namespace duetime::wheel {
namespace {

using test::CheckedWheel;

// Width of a slot on each level, in bits.
constexpr std::array<uint32_t, 6> kLevelShifts{11, 22, 29, 36, 43, 50};

// The character of a run, drawn at random so that runs differ in kind.
struct Character {
  Tick start = 0;
  // Most due times are at most 2^due_bits ahead, and most jumps of time at most 2^jump_bits.
  uint32_t due_bits = 0;
  uint32_t jump_bits = 0;
  uint32_t add_percent = 0;
  uint32_t cancel_percent = 0;
  size_t budget_max = 0;
};

template <typename Wheel>
class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed), character_(Draw()), wheel_(character_.start) {}

  // Makes one random operation. Returns false at the end of time.
  bool Step() {
    const uint64_t dice = Below(100);
    if (dice < character_.add_percent) {
      wheel_.Add(DrawDue());
    } else if (dice < character_.add_percent + character_.cancel_percent) {
      if (wheel_.added() > 0) wheel_.Cancel(DrawNumber());
      for (uint64_t steps = Below(4); steps > 0; --steps) wheel_.SweepStep();
    } else {
      const Tick now = DrawNow();
      if (now >= kNever - (Tick{1} << 40)) return false;
      wheel_.Advance(now, 1 + Below(character_.budget_max));
    }
    return true;
  }

  void Finish() {
    wheel_.Drain(kNever - 1, 1 + Below(1000));
    ASSERT_EQ(wheel_.waiting(), 0u);
  }

  CheckedWheel<Wheel>& wheel() { return wheel_; }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  // A number up to 2^bits. Each order of magnitude is equally likely.
  uint64_t Magnitude(uint32_t bits) {
    const uint64_t width = Below(bits + 1);
    return width == 0 ? 0 : random_() >> (64 - width);
  }

  Character Draw() {
    Character character;
    character.start = Below(4) == 0 ? 0 : random_() >> (8 + Below(56));
    character.due_bits = 1 + static_cast<uint32_t>(Below(40));
    character.jump_bits = 1 + static_cast<uint32_t>(Below(character.due_bits));
    character.add_percent = 20 + static_cast<uint32_t>(Below(40));
    character.cancel_percent = static_cast<uint32_t>(Below(30));
    character.budget_max = size_t{1} << Below(11);
    return character;
  }

  Tick DrawDue() {
    const Tick position = wheel_.wheel().position();
    Tick due = position + Magnitude(character_.due_bits);
    switch (Below(8)) {
      case 0: {  // around the edge of a level
        const uint32_t shift = kLevelShifts[Below(kLevelShifts.size())];
        due = (((position >> shift) + 1 + Below(2)) << shift) + Below(3) - 1;
        break;
      }
      case 1:  // late
        due = position - std::min(position, Magnitude(16));
        break;
      case 2:  // the same tick as before
        due = last_due_;
        break;
      case 3:
        if (Below(20) == 0) due = kNever - 1 - Magnitude(50);
        break;
      default:
        break;
    }
    last_due_ = std::min(due, kNever - 1);
    return last_due_;
  }

  Tick DrawNow() {
    const Tick target = wheel_.target();
    switch (Below(6)) {
      case 0:  // go on with the same
        return target;
      case 1: {  // like a caller that sleeps
        const Tick next = wheel_.wheel().NextDue();
        // Not to the end of time, because that would end the run.
        return next - target < (Tick{1} << 45) ? next : target;
      }
      case 2:  // backwards
        return target - std::min(target, Magnitude(8));
      case 3:  // once in a while, years
        return target + Magnitude(Below(50) == 0 ? 44 : character_.jump_bits);
      default:
        return target + Magnitude(character_.jump_bits);
    }
  }

  // Mostly the number of a recent entry, so that cancels often find one.
  uint64_t DrawNumber() {
    const uint64_t added = wheel_.added();
    return Below(4) == 0 ? Below(added) : added - 1 - std::min(added - 1, Magnitude(10));
  }

  std::mt19937_64 random_;
  Character character_;
  CheckedWheel<Wheel> wheel_;
  Tick last_due_ = 0;
};

template <typename Wheel>
class WheelPropertyTest : public ::testing::Test {};
using Wheels = ::testing::Types<TimingWheel<uint64_t>, test::CancellableWheel>;
TYPED_TEST_SUITE(WheelPropertyTest, Wheels);

TYPED_TEST(WheelPropertyTest, SmallRunsAgreeWithASortedMapAndKeepTheInvariantsAfterEachStep) {
  const uint64_t seed = test::TestSeed();
  const int64_t runs = test::Scaled(200);
  constexpr int kSteps = 150;
  int64_t steps = 0;
  for (int64_t i = 0; i < runs; ++i) {
    RandomRun<TypeParam> run(seed + static_cast<uint64_t>(i));
    for (int step = 0; step < kSteps && run.Step(); ++step, ++steps) {
      run.wheel().wheel().CheckInvariants();
    }
    run.Finish();
    run.wheel().wheel().CheckInvariants();
  }
  EXPECT_GT(steps, runs * kSteps / 2);
}

TYPED_TEST(WheelPropertyTest, LongRunsAgreeWithASortedMap) {
  const uint64_t seed = test::TestSeed();
  const int64_t runs = test::Scaled(120);
  constexpr int kSteps = 8'000;
  int64_t steps = 0;
  for (int64_t i = 0; i < runs; ++i) {
    RandomRun<TypeParam> run(seed + 1'000'000 + static_cast<uint64_t>(i));
    for (int step = 0; step < kSteps && run.Step(); ++step) ++steps;
    run.Finish();
  }
  // Most runs reach their full length. A run ends early only at the end of time.
  EXPECT_GT(steps, runs * kSteps / 2);
}

}  // namespace
}  // namespace duetime::wheel
