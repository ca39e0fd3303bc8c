// SPDX-License-Identifier: Apache-2.0
//
// Seeded simulation. To replay a seed: DUETIME_SEED=<seed> DUETIME_SIM_SEEDS=1. More seeds:
// DUETIME_SIM_SEEDS=<n>, or DUETIME_TEST_SCALE.
#include <cstdint>
#include <iostream>
#include <string>

#include "gtest/gtest.h"

#include "tests/simulation/world.h"
#include "tests/support/from_environment.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

constexpr int kEvents = 3000;

TEST(SimulationTest, KeepsItsPromisesUnderFaults) {
  const uint64_t first = test::FromEnvironment("DUETIME_SEED", 1);
  const uint64_t seeds =
      test::FromEnvironment("DUETIME_SIM_SEEDS", static_cast<uint64_t>(test::Scaled(1000)));
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  Report total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    World world(seed, Sabotage::kNone);
    const Report report = world.Run(kEvents);
    ASSERT_EQ(report.violation, "") << "seed " << seed << ", event " << report.events;
    total.accepted += report.accepted;
    total.deliveries += report.deliveries;
    total.cancelled += report.cancelled;
    total.crashes += report.crashes;
    total.spilled += report.spilled;
    total.read_back += report.read_back;
    total.replaced += report.replaced;
    total.moved += report.moved;
    total.occurrences += report.occurrences;
    total.waited += report.waited;
  }
  std::cout << total.accepted << " accepted, " << total.deliveries << " deliveries, "
            << total.cancelled << " cancelled, " << total.crashes << " crashes, " << total.spilled
            << " spilled, " << total.read_back << " read back, " << total.replaced << " replaced, "
            << total.moved << " moved, " << total.occurrences << " occurrences, " << total.waited
            << " waited at a time\n";
  // A run in which nothing happened is not a pass.
  EXPECT_GT(total.accepted, seeds * 100);
  EXPECT_GT(total.deliveries, seeds * 100);
  EXPECT_GT(total.cancelled, seeds);
  EXPECT_GT(total.crashes, seeds);
  EXPECT_GT(total.spilled, seeds);
  EXPECT_GT(total.read_back, seeds);
  EXPECT_GT(total.replaced, seeds);
  EXPECT_GT(total.moved, seeds);
  EXPECT_GT(total.occurrences, seeds);
  EXPECT_GT(total.waited, seeds);
}

// The simulation has teeth: each planted fault is found.
class PlantedFaultTest : public testing::TestWithParam<Sabotage> {};

TEST_P(PlantedFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 500;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    World world(seed, GetParam());
    const Report report = world.Run(kEvents);
    if (!report.violation.empty()) {
      std::cout << "seed " << seed << ": " << report.violation << "\n";
      return;
    }
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaultTest,
                         testing::Values(Sabotage::kAnswerBeforeAppend, Sabotage::kForgetClaim,
                                         Sabotage::kSafeTooFar, Sabotage::kEarlyClock,
                                         Sabotage::kUnsyncedAppends, Sabotage::kForgetBacklogClaim,
                                         Sabotage::kForgetTraces, Sabotage::kForgetKeys,
                                         Sabotage::kReverseGroups, Sabotage::kForgetOccurrences));

}  // namespace
}  // namespace duetime::simulation
