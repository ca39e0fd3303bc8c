// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/log_throttle.h"

#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

TEST(LogThrottleTest, LetsAFewLinesOfEachKindPassAndCountsTheRest) {
  LogThrottle throttle;
  const char* const file = "transport.cc";
  for (uint64_t i = 0; i < LogThrottle::kLinesPerWindow; ++i) {
    EXPECT_EQ(throttle.Pass(file, 1, 1'000 + i), 0u);
  }
  for (uint64_t i = 0; i < 700; ++i) EXPECT_FALSE(throttle.Pass(file, 1, 2'000).has_value());
  EXPECT_EQ(throttle.Pass(file, 2, 2'000), 0u) << "another kind";
  const uint64_t next = 1'000 + LogThrottle::kWindowMs;
  EXPECT_FALSE(throttle.Pass(file, 1, next - 1).has_value());
  EXPECT_EQ(throttle.Pass(file, 1, next), 701u);
  EXPECT_EQ(throttle.Pass(file, 1, next), 0u);
}

}  // namespace
}  // namespace duetime::rpc
