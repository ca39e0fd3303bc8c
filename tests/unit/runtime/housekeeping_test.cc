// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/housekeeping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "server/runtime/disk_guard.h"
#include "server/runtime/logging.h"
#include "server/runtime/memory_return.h"
#include "server/runtime/system_clock.h"

namespace duetime::runtime {
namespace {

TEST(DiskGuardTest, IsLowBelowTheLimitAndRecoversAnEighthAboveIt) {
  DiskGuard guard(800);
  EXPECT_FALSE(guard.Update(800));
  EXPECT_TRUE(guard.Update(799));
  EXPECT_TRUE(guard.Update(800));
  EXPECT_TRUE(guard.Update(899));
  EXPECT_FALSE(guard.Update(900));
  EXPECT_FALSE(guard.Update(800));
}

TEST(DiskGuardTest, ZeroIsOff) {
  DiskGuard guard(0);
  EXPECT_FALSE(guard.Update(0));
}

TEST(MemoryReturnTest, ReturnsMuchFreeMemoryOnceAndSeldom) {
  constexpr uint64_t kMuch = MemoryReturn::kFreeBytesMin;
  uint64_t free_bytes = kMuch - 1;
  uint64_t resident_bytes = 2 * kMuch;
  MemoryReturn memory({.free_bytes = [&] { return free_bytes; },
                       .resident_bytes = [&] { return resident_bytes; },
                       // malloc still counts what it has returned as free.
                       .give_back = [&] { resident_bytes = kMuch; }});
  uint64_t now_ms = 1'000;
  const auto look = [&] {
    now_ms += MemoryReturn::kPeriodMs;
    EXPECT_FALSE(memory.Look(now_ms - 1)) << "measuring costs time, too";
    return memory.Look(now_ms);
  };
  EXPECT_FALSE(memory.Look(now_ms)) << "not much is free";
  free_bytes = kMuch;
  EXPECT_TRUE(look());
  EXPECT_FALSE(look()) << "nothing has happened since";
  resident_bytes = 2 * kMuch - 1;
  EXPECT_FALSE(look()) << "not much has happened since";
  resident_bytes = 2 * kMuch;
  EXPECT_TRUE(look());
  resident_bytes = kMuch / 2;
  EXPECT_FALSE(look());
  resident_bytes = kMuch / 2 + kMuch;
  EXPECT_TRUE(look()) << "it had shrunk";
}

TEST(HousekeepingTest, IsCorrectFromTheStart) {
  SystemClock clock;
  int witnesses = 0;
  uint64_t dropped_until_ms = 0;
  const uint64_t before_ms = clock.Read().wall_ms;
  Housekeeping housekeeping(
      {.disk_free_min_bytes = 1'000},
      {.disk_free = [] { return uint64_t{999}; },
       .write_witness =
           [&witnesses] {
             ++witnesses;
             return absl::OkStatus();
           },
       .drop_expired = [&dropped_until_ms](uint64_t until_ms) { dropped_until_ms = until_ms; }},
      &clock);
  EXPECT_FALSE(housekeeping.disk_low());
  housekeeping.Start();
  EXPECT_TRUE(housekeeping.disk_low());
  EXPECT_EQ(housekeeping.disk_free_bytes(), 999u);
  housekeeping.Stop();
  housekeeping.Stop();
  EXPECT_GE(witnesses, 1);
  EXPECT_GE(dropped_until_ms, before_ms);
}

TEST(HousekeepingTest, AFailedMeasurementChangesNothing) {
  SystemClock clock;
  Housekeeping housekeeping(
      {.disk_free_min_bytes = 1'000},
      {.disk_free = []() -> absl::StatusOr<uint64_t> { return absl::InternalError("gone"); },
       .write_witness = [] { return absl::InternalError("read-only"); }},
      &clock);
  housekeeping.Start();
  EXPECT_FALSE(housekeeping.disk_low());
  housekeeping.Stop();
}

TEST(SystemClockTest, NeverGoesBack) {
  SystemClock clock;
  base::Now last = clock.Read();
  EXPECT_GT(last.wall_ms, 0u);
  for (int i = 0; i < 10'000; ++i) {
    const base::Now now = clock.Read();
    ASSERT_GE(now.wall_ms, last.wall_ms);
    ASSERT_GE(now.mono_ms, last.mono_ms);
    last = now;
  }
  EXPECT_EQ(clock.state(), base::ClockState::kNormal);
}

TEST(LoggingTest, AJsonLineSurvivesAnyMessage) {
  const std::string message = "say \"hi\"\n\x01 and \xff bad bytes";
  const std::string line = JsonLogLine("2026-01-01T00:00:00.000Z", "info", 42, message);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["level"], "info");
  EXPECT_EQ(parsed["thread"], 42);
  EXPECT_THAT(parsed["message"].get<std::string>(), ::testing::StartsWith("say \"hi\"\n"));
}

}  // namespace
}  // namespace duetime::runtime
