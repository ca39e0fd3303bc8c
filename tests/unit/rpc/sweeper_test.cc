// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/sweeper.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

TEST(SweeperTest, EveryStepBackOfTheMachinesClockNudgesOnce) {
  constexpr int64_t kHourMs = 3'600'000;
  struct Case {
    std::string name;
    // What the clock shows at the start and at each sweep.
    std::vector<int64_t> wall_ms;
    uint64_t nudges;
  };
  const std::vector<Case> cases = {
      {"goes on", {0, 1, 2, 3}, 0},
      {"stands still", {0, 0, 0}, 0},
      {"jumps ahead", {0, kHourMs, kHourMs + 1}, 0},
      {"jumps ahead and is corrected", {0, kHourMs, 2, 3}, 1},
      {"is set back three times", {3 * kHourMs, 2 * kHourMs, kHourMs, 0}, 3},
      {"is before 1970", {0, -2, -1}, 1},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.name);
    base::Mutex mutex;
    base::CondVar changed;
    size_t sweeps = 0;
    // Only the sweeper's thread reads the clock.
    size_t readings = 0;
    Sweeper sweeper(
        std::chrono::milliseconds(1),
        [&] {
          base::MutexLock lock(&mutex);
          ++sweeps;
          changed.NotifyAll();
        },
        [&] { return test.wall_ms[std::min(readings++, test.wall_ms.size() - 1)]; });
    sweeper.Start();
    {
      base::MutexLock lock(&mutex);
      while (sweeps + 1 < test.wall_ms.size()) changed.Wait(&mutex);
    }
    sweeper.Stop();
    sweeper.Stop();
    EXPECT_EQ(sweeper.nudges(), test.nudges);
  }
}

TEST(SweeperTest, EndsInTheMiddleOfAPeriod) {
  Sweeper sweeper(std::chrono::hours(1), [] {});
  sweeper.Start();
  sweeper.Stop();
  EXPECT_EQ(sweeper.nudges(), 0u);
}

}  // namespace
}  // namespace duetime::rpc
