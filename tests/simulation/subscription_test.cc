// SPDX-License-Identifier: Apache-2.0
//
// Several subscriptions of a topic, under faults. To replay a seed: DUETIME_SEED=<seed>
// DUETIME_SIM_SEEDS=1. More seeds: DUETIME_SIM_SEEDS=<n>, or DUETIME_TEST_SCALE.
#include <cstdint>
#include <iostream>

#include "gtest/gtest.h"

#include "tests/simulation/subscription_world.h"
#include "tests/support/from_environment.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

constexpr int kEvents = 2000;

TEST(SubscriptionTest, EachSubscriptionGetsEveryMessageUntilItIsDone) {
  const uint64_t first = test::FromEnvironment("DUETIME_SEED", 1);
  const uint64_t seeds =
      test::FromEnvironment("DUETIME_SIM_SEEDS", static_cast<uint64_t>(test::Scaled(500)));
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  SubscriptionReport total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SubscriptionWorld world(seed, SubscriptionSabotage::kNone);
    const SubscriptionReport report = world.Run(kEvents);
    ASSERT_EQ(report.violation, "") << "seed " << seed << ", event " << report.events;
    total.Add(report);
  }
  std::cout << total.accepted << " accepted, " << total.deliveries << " deliveries, "
            << total.failures << " failures, " << total.dead_letters << " dead letters, "
            << total.blocked << " blocked at a time, " << total.deleted << " deleted, "
            << total.crashes << " crashes, " << total.spilled << " spilled, " << total.given_up
            << " given up\n";
  // A run in which nothing happened is not a pass.
  EXPECT_GT(total.accepted, seeds * 50);
  EXPECT_GT(total.deliveries, seeds * 50);
  EXPECT_GT(total.failures, seeds * 10);
  EXPECT_GT(total.dead_letters, seeds);
  EXPECT_GT(total.blocked, seeds);
  EXPECT_GT(total.deleted, seeds / 5);
  EXPECT_GT(total.crashes, seeds);
  EXPECT_GT(total.spilled, seeds);
  EXPECT_GT(total.given_up, seeds);
}

// Seeds that found something.
TEST(SubscriptionTest, FoundBefore) {
  // An earlier listing let go of an entry whose failed attempt was not on disk yet.
  for (const uint64_t seed : {uint64_t{50'586}}) {
    EXPECT_EQ(SubscriptionWorld(seed, SubscriptionSabotage::kNone).Run(kEvents).violation, "");
  }
}

// The simulation has teeth: each planted fault is found.
class PlantedFaultTest : public testing::TestWithParam<SubscriptionSabotage> {};

TEST_P(PlantedFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 300;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SubscriptionWorld world(seed, GetParam());
    const SubscriptionReport report = world.Run(kEvents);
    if (!report.violation.empty()) {
      std::cout << "seed " << seed << ": " << report.violation << "\n";
      return;
    }
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFaultTest,
                         testing::Values(SubscriptionSabotage::kForgetProgress,
                                         SubscriptionSabotage::kLoseProgress,
                                         SubscriptionSabotage::kForgetRetryTimes,
                                         SubscriptionSabotage::kForgetAttempts,
                                         SubscriptionSabotage::kLoseDeadLetters,
                                         SubscriptionSabotage::kLoseSubscriptions));

}  // namespace
}  // namespace duetime::simulation
