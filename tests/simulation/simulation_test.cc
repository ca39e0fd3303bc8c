// SPDX-License-Identifier: Apache-2.0
//
// Seeded simulation. To replay a seed: DUETIME_SEED=<seed> DUETIME_SIM_SEEDS=1, with a filter for
// one list of calls. For more seeds: DUETIME_SIM_SEEDS=<n> or DUETIME_TEST_SCALE.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"

#include "tests/simulation/catalog_calls.h"
#include "tests/simulation/concurrent_calls.h"
#include "tests/simulation/sequential_calls.h"
#include "tests/support/from_environment.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

template <typename Calls>
Report RunSeed(const Setup& setup) {
  constexpr int kEvents = std::is_same_v<Calls, SequentialCalls> ? 400
                          : std::is_same_v<Calls, HotKeyCalls>   ? 600
                                                                 : 2500;
  return Calls(setup).Run(kEvents);
}

// Of a cell.
size_t MembersOf(uint64_t seed) { return 1 + seed % 3; }

enum class Where : uint8_t { kOneMachine, kOnRocksDb, kInACell };

Setup SetupOf(uint64_t seed, Where where, PlantedFault fault = PlantedFault::kNone) {
  return {.seed = seed,
          .fault = fault,
          .members = where == Where::kInACell ? MembersOf(seed) : 0,
          .on_rocksdb = where == Where::kOnRocksDb};
}

// Runs the seeds. Each counted event must happen more often than `least` times per seed, because a
// run without events is not a pass. `share`: runs only one of so many seeds.
template <typename Calls>
void RunSeeds(const std::map<std::string, double>& least, uint64_t share = 1,
              Where where = Where::kOneMachine) {
  const uint64_t first = test::FromEnvironment("DUETIME_SEED", 1);
  const uint64_t all =
      test::FromEnvironment("DUETIME_SIM_SEEDS", static_cast<uint64_t>(test::Scaled(1000)));
  const uint64_t seeds = std::max<uint64_t>(1, all / share);
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  std::map<std::string, uint64_t> total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Report report = RunSeed<Calls>(SetupOf(seed, where));
    ASSERT_EQ(report.violation, "") << "seed " << seed << ", event " << report.events << "\n"
                                    << report.history;
    for (const auto& [what, times] : report.counts) total[what] += times;
  }
  for (const auto& [what, times] : total) std::cout << times << " " << what << "\n";
  for (const auto& [what, times] : least) {
    EXPECT_GT(static_cast<double>(total[what]), times * static_cast<double>(seeds)) << what;
  }
}

TEST(ConcurrentCallsTest, KeepThePromisesUnderFaults) {
  RunSeeds<ConcurrentCalls>({{"accepted", 100},
                             {"deliveries", 100},
                             {"cancelled", 1},
                             {"crashes", 1},
                             {"clean stops", 0.2},
                             {"released", 1},
                             {"spilled", 1},
                             {"read back", 1},
                             {"replaced", 1},
                             {"moved", 1},
                             {"occurrences", 1},
                             {"waited at a time", 1},
                             {"failures", 10},
                             {"dead letters", 1},
                             {"blocked at a time", 1},
                             {"deleted", 0.2},
                             {"damaged", 0.5},
                             {"given back", 0.02},
                             {"drained around damage", 0.05},
                             {"topic full", 0.2},
                             {"minute full", 0.2},
                             {"spread", 0.2},
                             {"begun", 5},
                             {"suspects", 1},
                             {"given up", 1}});
}

TEST(ConcurrentCallsTest, KeepThePromisesWithAHotKey) {
  RunSeeds<HotKeyCalls>({{"accepted", 100},
                         {"cancelled", 0.1},
                         {"crashes", 0.2},
                         {"replaced", 50},
                         {"merged", 10},
                         {"moved", 0.1},
                         {"waited at a time", 2}},
                        /*share=*/4);
}

TEST(SequentialCallsTest, EachCallHasItsOneAnswer) {
  RunSeeds<SequentialCalls>({{"created", 20},
                             {"replaced", 5},
                             {"unchanged", 1},
                             {"refused", 3},
                             {"cancelled", 5},
                             {"moved", 5},
                             {"deliveries", 20},
                             {"expired", 1},
                             {"uncertain", 0.1},
                             {"crashes", 2},
                             {"clean stops", 1},
                             {"ends lost", 0.033},
                             {"spilled", 1}});
}

TEST(CatalogCallsTest, TopicsAndSubscriptionsKeepTheirPromises) {
  RunSeeds<CatalogCalls>({{"accepted", 20},
                          {"created by use", 1},
                          {"numbers taken over", 0.02},
                          {"clock set right", 0.02},
                          {"requests repeated", 2},
                          {"topics changed", 2},
                          {"topics deleted", 1},
                          {"subscribed", 2},
                          {"unsubscribed", 0.5},
                          {"topics refused", 1},
                          {"crashes", 3},
                          {"rests", 3}});
}

// ---- On the daemon's storage engine

TEST(ConcurrentCallsTest, KeepThePromisesOnRocksDb) {
  RunSeeds<ConcurrentCalls>({{"accepted", 100}, {"crashes", 1}, {"spilled", 1}, {"moved", 1}},
                            /*share=*/50, Where::kOnRocksDb);
}

TEST(SequentialCallsTest, EachCallHasItsOneAnswerOnRocksDb) {
  RunSeeds<SequentialCalls>({{"created", 20}, {"crashes", 2}, {"clean stops", 1}}, /*share=*/20,
                            Where::kOnRocksDb);
}

TEST(CatalogCallsTest, TopicsAndSubscriptionsKeepTheirPromisesOnRocksDb) {
  RunSeeds<CatalogCalls>({{"accepted", 20}, {"crashes", 3}, {"rests", 3}}, /*share=*/50,
                         Where::kOnRocksDb);
}

// ---- In a cell: the same promises, while one machine after the other leads

TEST(ConcurrentCallsTest, KeepThePromisesInACell) {
  RunSeeds<ConcurrentCalls>({{"accepted", 100},
                             {"deliveries", 100},
                             {"cancelled", 1},
                             {"crashes", 5},
                             {"clean stops", 0.2},
                             {"epochs", 5},
                             {"cuts", 1},
                             {"lost disks", 0.5},
                             {"trims", 5},
                             {"checkpoints", 0.2},
                             {"steps of a former leader", 5},
                             {"dead letters", 1},
                             {"given up", 1}},
                            /*share=*/4, Where::kInACell);
}

TEST(ConcurrentCallsTest, KeepThePromisesWithAHotKeyInACell) {
  RunSeeds<HotKeyCalls>({{"accepted", 100}, {"merged", 10}, {"epochs", 1}}, /*share=*/8,
                        Where::kInACell);
}

TEST(SequentialCallsTest, EachCallHasItsOneAnswerInACell) {
  RunSeeds<SequentialCalls>({{"created", 20}, {"crashes", 2}, {"clean stops", 1}, {"epochs", 4}},
                            /*share=*/4, Where::kInACell);
}

TEST(CatalogCallsTest, TopicsAndSubscriptionsKeepTheirPromisesInACell) {
  RunSeeds<CatalogCalls>({{"accepted", 20}, {"crashes", 3}, {"epochs", 3}, {"rests", 3}},
                         /*share=*/4, Where::kInACell);
}

// The simulation finds each planted fault.
template <typename Calls>
void ExpectFound(PlantedFault fault, Where where = Where::kOneMachine) {
  constexpr uint64_t kSeeds = 500;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Report report = RunSeed<Calls>(SetupOf(seed, where, fault));
    if (report.violation.empty()) continue;
    std::cout << "seed " << seed << ": " << report.violation << "\n";
    return;
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

class ConcurrentFaultTest : public testing::TestWithParam<PlantedFault> {};
TEST_P(ConcurrentFaultTest, IsFound) { ExpectFound<ConcurrentCalls>(GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    All, ConcurrentFaultTest,
    testing::Values(PlantedFault::kAnswerBeforeAppend, PlantedFault::kForgetClaim,
                    PlantedFault::kLowWatermarkTooFar, PlantedFault::kEarlyClock,
                    PlantedFault::kUnsyncedAppends, PlantedFault::kForgetBacklogClaim,
                    PlantedFault::kLoseLocators, PlantedFault::kLoseKeyChanges,
                    PlantedFault::kReverseGroups, PlantedFault::kLoseOccurrences,
                    PlantedFault::kForgetProgress, PlantedFault::kLoseProgress,
                    PlantedFault::kLoseRetryTimes, PlantedFault::kLoseAttempts,
                    PlantedFault::kLoseDeadLetters, PlantedFault::kLoseSubscriptions,
                    PlantedFault::kStopAtDamage, PlantedFault::kHideDamage,
                    PlantedFault::kLooseLimits, PlantedFault::kTornAppends));

class ConcurrentFaultInACellTest : public testing::TestWithParam<PlantedFault> {};
TEST_P(ConcurrentFaultInACellTest, IsFound) {
  ExpectFound<ConcurrentCalls>(GetParam(), Where::kInACell);
}
INSTANTIATE_TEST_SUITE_P(All, ConcurrentFaultInACellTest,
                         testing::Values(PlantedFault::kServeOn, PlantedFault::kSkipGroups,
                                         PlantedFault::kEpochTwice, PlantedFault::kTrimTooFar,
                                         PlantedFault::kAnswerBeforeAppend,
                                         PlantedFault::kForgetClaim));

class CatalogFaultTest : public testing::TestWithParam<PlantedFault> {};
TEST_P(CatalogFaultTest, IsFound) { ExpectFound<CatalogCalls>(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, CatalogFaultTest,
                         testing::Values(PlantedFault::kAnswerBeforeAppend,
                                         PlantedFault::kUnsyncedAppends, PlantedFault::kForgetUse,
                                         PlantedFault::kLoseTopics,
                                         PlantedFault::kLoseSubscriptions));

class SequentialFaultTest : public testing::TestWithParam<PlantedFault> {};
TEST_P(SequentialFaultTest, IsFound) { ExpectFound<SequentialCalls>(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, SequentialFaultTest,
                         testing::Values(PlantedFault::kLoseMoves, PlantedFault::kLoseTombstones,
                                         PlantedFault::kLoseKeyEnds, PlantedFault::kLoseRequestIds,
                                         PlantedFault::kKeepOldPlace, PlantedFault::kMiscount,
                                         PlantedFault::kForgetClaim, PlantedFault::kUnsyncedAppends,
                                         PlantedFault::kIgnoreEtags, PlantedFault::kPullForward));

}  // namespace
}  // namespace duetime::simulation
