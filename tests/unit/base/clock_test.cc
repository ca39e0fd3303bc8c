// SPDX-License-Identifier: Apache-2.0
#include "server/base/clock.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace duetime::base {
namespace {

constexpr uint64_t kStepMax = 60'000;
constexpr int64_t kStart = 1'700'000'000'000;

// A machine with two clocks that the test sets.
class Machine {
 public:
  // Time passes on both clocks.
  void Pass(uint64_t ms) {
    raw_.wall_ms += static_cast<int64_t>(ms);
    raw_.boot_ms += ms;
  }
  // Changes the wall clock, like an administrator or NTP.
  void StepWall(int64_t ms) { raw_.wall_ms += ms; }

  uint64_t wall() const { return static_cast<uint64_t>(raw_.wall_ms); }
  const RawTime& raw() const { return raw_; }

 private:
  RawTime raw_{.wall_ms = kStart, .boot_ms = 5'000};
};

class ServerTimeTest : public ::testing::Test {
 protected:
  ServerTimeTest() { Read(); }

  // Reads server time from the machine's clocks and checks the invariants.
  Now Read() {
    const Now now = time_.Update(machine_.raw());
    EXPECT_LE(now.wall_ms, machine_.wall());
    EXPECT_GE(now.mono_ms, last_.mono_ms);
    last_ = now;
    return now;
  }

  Machine machine_;
  ServerTime time_{kStepMax};
  Now last_;
};

TEST_F(ServerTimeTest, TheFirstReadingIsTakenAsItIs) {
  EXPECT_EQ(last_.wall_ms, static_cast<uint64_t>(kStart));
  EXPECT_EQ(last_.mono_ms, 5'000u);
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, ADelayCountsFromTheNextMillisecondIfThisOneHasBegun) {
  EXPECT_EQ(last_.wall_up_ms(), last_.wall_ms);
  RawTime raw = machine_.raw();
  raw.begun = true;
  const Now now = time_.Update(raw);
  EXPECT_EQ(now.wall_ms, last_.wall_ms) << "what is due is decided by the time rounded down";
  EXPECT_EQ(now.wall_up_ms(), last_.wall_ms + 1);
  EXPECT_EQ(now.mono_up_ms(), last_.mono_ms + 1);
}

TEST_F(ServerTimeTest, FollowsTheWallClock) {
  machine_.Pass(1'234);
  EXPECT_EQ(Read().wall_ms, machine_.wall());
  EXPECT_EQ(last_.mono_ms, 6'234u);
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, ALongSleepIsNoStep) {
  machine_.Pass(10 * 24 * 3'600'000ull);
  EXPECT_EQ(Read().wall_ms, machine_.wall());
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, AStepBackIsFollowedAndReported) {
  EXPECT_EQ(time_.steps_back(), 0u);
  machine_.StepWall(-3'600'000);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) - 3'600'000);
  EXPECT_EQ(time_.state(), ClockState::kSetBack);
  EXPECT_EQ(time_.steps_back(), 1u);
  machine_.Pass(1'800'000);
  EXPECT_EQ(Read().wall_ms, machine_.wall());
  EXPECT_EQ(time_.state(), ClockState::kSetBack);
  // The steady clock goes on meanwhile, so that leases end.
  EXPECT_EQ(last_.mono_ms, 1'805'000u);
  machine_.Pass(1'800'000);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart));
  EXPECT_EQ(time_.state(), ClockState::kNormal) << "it has caught up with its latest time";
  EXPECT_EQ(time_.steps_back(), 1u);
}

TEST_F(ServerTimeTest, AStepBackOfOneMillisecondIsFollowedToo) {
  machine_.Pass(100);
  Read();
  machine_.StepWall(-1);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) + 99);
  EXPECT_EQ(time_.state(), ClockState::kSetBack);
}

TEST_F(ServerTimeTest, AClockThatWasSetBackMayReturnButNotGoBeyond) {
  machine_.StepWall(-3'600'000);
  Read();
  machine_.Pass(10'000);
  machine_.StepWall(3'600'000);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) + 10'000);
  EXPECT_EQ(time_.state(), ClockState::kNormal);
  machine_.StepWall(-3'600'000);
  Read();
  machine_.StepWall(3'600'000 + kStepMax + 1);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) - 3'590'000);
  EXPECT_EQ(time_.state(), ClockState::kAhead);
}

TEST_F(ServerTimeTest, AStepForwardUpToTheThresholdIsFollowed) {
  machine_.StepWall(kStepMax);
  EXPECT_EQ(Read().wall_ms, machine_.wall());
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, AStepForwardBeyondTheThresholdIsHeld) {
  machine_.StepWall(kStepMax + 1);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart));
  EXPECT_EQ(time_.state(), ClockState::kAhead);
  // Server time passes at the pace of the monotonic clock.
  machine_.Pass(5'000);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) + 5'000);
  EXPECT_EQ(time_.state(), ClockState::kAhead);
}

TEST_F(ServerTimeTest, AHeldJumpEndsWhenTheClockComesBack) {
  machine_.StepWall(86'400'000);
  Read();
  machine_.Pass(1'000);
  Read();
  machine_.StepWall(-86'400'000);
  machine_.Pass(1'000);
  EXPECT_EQ(Read().wall_ms, static_cast<uint64_t>(kStart) + 2'000);
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, AHeldJumpIsFollowedAfterRelease) {
  machine_.StepWall(86'400'000);
  Read();
  EXPECT_EQ(time_.state(), ClockState::kAhead);
  time_.Release();
  machine_.Pass(1);
  EXPECT_EQ(Read().wall_ms, machine_.wall());
  EXPECT_EQ(time_.state(), ClockState::kNormal);
}

TEST_F(ServerTimeTest, OneReleaseIsGoodForOneJump) {
  machine_.StepWall(86'400'000);
  Read();
  time_.Release();
  Read();
  machine_.StepWall(86'400'000);
  Read();
  EXPECT_EQ(time_.state(), ClockState::kAhead);
}

TEST_F(ServerTimeTest, ASteadyClockThatGoesBackIsIgnored) {
  RawTime raw = machine_.raw();
  raw.boot_ms = 1;
  const Now now = time_.Update(raw);
  EXPECT_EQ(now.mono_ms, 5'000u);
  EXPECT_EQ(now.wall_ms, static_cast<uint64_t>(kStart));
}

TEST(ServerTimeEdgesTest, AWallClockBeforeTheEpochCountsAsTheEpoch) {
  ServerTime time(kStepMax);
  EXPECT_EQ(time.Update({.wall_ms = -1, .boot_ms = 0}).wall_ms, 0u);
}

TEST(ServerTimeEdgesTest, NeverAheadOfTheWallClock) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    ServerTime time(kStepMax);
    RawTime raw{.wall_ms = kStart, .boot_ms = 1'000};
    uint64_t last_mono = 0;
    for (int i = 0; i < 1'000; ++i) {
      const uint64_t passed = random() % 2'000;
      raw.boot_ms += passed;
      raw.wall_ms += static_cast<int64_t>(passed);
      if (random() % 20 == 0) raw.wall_ms += static_cast<int64_t>(random() % 400'000) - 200'000;
      if (random() % 40 == 0) time.Release();
      const Now now = time.Update(raw);
      ASSERT_LE(now.wall_ms, static_cast<uint64_t>(raw.wall_ms)) << "seed " << seed;
      ASSERT_GE(now.mono_ms, last_mono) << "seed " << seed;
      if (time.state() != ClockState::kAhead) {
        ASSERT_EQ(now.wall_ms, static_cast<uint64_t>(raw.wall_ms)) << "seed " << seed;
      }
      last_mono = now.mono_ms;
    }
  }
}

TEST(MachineClockTest, ReadsBothClocks) {
  const RawTime first = ReadMachineClocks();
  const RawTime second = ReadMachineClocks();
  EXPECT_GT(first.wall_ms, kStart);
  EXPECT_GT(first.boot_ms, 0u);
  EXPECT_GE(second.boot_ms, first.boot_ms);
}

}  // namespace
}  // namespace duetime::base
