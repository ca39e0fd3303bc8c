// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/descriptors.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace duetime::runtime {
namespace {

TEST(DescriptorsTest, TheSoftLimitBecomesTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(RaiseDescriptorLimit(), before.rlim_max);
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(DescriptorsTest, TheSharesFitIntoTheLimit) {
  for (const uint64_t limit : {kDescriptorsMin, uint64_t{1'024}, uint64_t{20'000}}) {
    for (const uint64_t wanted :
         {uint64_t{1}, uint64_t{500}, uint64_t{10'000}, uint64_t{1'000'000}}) {
      for (const uint64_t metrics : {uint64_t{1}, uint64_t{64}, uint64_t{10'000}}) {
        SCOPED_TRACE(testing::Message() << limit << " " << wanted << " " << metrics);
        const DescriptorPlan plan = PlanDescriptors(limit, wanted, metrics);
        EXPECT_LE(plan.connections, wanted);
        EXPECT_LE(plan.metrics_connections, metrics);
        EXPECT_GE(plan.metrics_connections, std::min<uint64_t>(metrics, 32));
        EXPECT_LE(plan.connections + plan.metrics_connections + plan.tables, limit - 64);
        // RocksDB needs at least 20.
        EXPECT_TRUE(plan.tables == 0 || plan.tables >= 32);
      }
    }
  }
  EXPECT_EQ(PlanDescriptors(65'536, 10'000, 64).tables, 0u) << "all tables stay open";
  EXPECT_EQ(PlanDescriptors(65'536, 10'000, 64).connections, 10'000u);
  EXPECT_EQ(PlanDescriptors(65'536, 10'000, 10'000).metrics_connections, 8'192u);
  EXPECT_EQ(PlanDescriptors(1'024, 10'000, 64).connections, 512u);
  EXPECT_EQ(PlanDescriptors(1'024, 10'000, 64).metrics_connections, 64u);
}

TEST(DescriptorsTest, ThreadsThatDoNotFitTheCoresAreNamed) {
  EXPECT_EQ(MisfitText(4, 4, 1), "") << "a member of a cell";
  EXPECT_EQ(MisfitText(16, 16, 8), "");
  EXPECT_EQ(MisfitText(0, 0, 1), "");
  EXPECT_THAT(MisfitText(64, 0, 1), testing::StartsWith("64 shards are too many for 1 core;"));
  EXPECT_EQ(MisfitText(1, 64, 2), "io_threads = 64 is too much for 2 cores");
  EXPECT_THAT(MisfitText(9, 9, 4),
              testing::AllOf(testing::HasSubstr("9 shards"), testing::HasSubstr("io_threads = 9")));
}

}  // namespace
}  // namespace duetime::runtime
