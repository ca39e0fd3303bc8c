// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/slow_log.h"

#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

TEST(SlowLogTest, ACallIsSlowFromTheLimitOn) {
  const SlowLog log(1'000);
  EXPECT_FALSE(log.IsSlow(999'999));
  EXPECT_TRUE(log.IsSlow(1'000'000));
  EXPECT_FALSE(SlowLog(0).IsSlow(UINT64_MAX)) << "0 is off";
}

TEST(SlowLogTest, TheLineNamesMethodTimeStatusAndClient) {
  SlowLog log(1'000);
  EXPECT_EQ(log.Line({.method = "Get", .micros = 1'234'567, .peer = "unix"}, 0),
            "slow call: Get took 1234 ms, OK, from unix");
  EXPECT_EQ(log.Line({.method = "List",
                      .micros = 2'000'000,
                      .code = absl::StatusCode::kUnavailable,
                      .principal = "alice",
                      .peer = "10.0.0.7"},
                     0),
            "slow call: List took 2000 ms, UNAVAILABLE, from alice at 10.0.0.7");
}

TEST(SlowLogTest, EachMethodHasItsOwnFewLinesPerMinute) {
  SlowLog log(1'000);
  const char* const method = "Get";
  int lines = 0;
  for (int i = 0; i < 100; ++i) lines += log.Line({.method = method, .peer = "p"}, 1).has_value();
  EXPECT_EQ(lines, LogThrottle::kLinesPerWindow);
  EXPECT_TRUE(log.Line({.method = "List", .peer = "p"}, 1).has_value());
  EXPECT_EQ(log.Line({.method = method, .peer = "p"}, 1 + LogThrottle::kWindowMs),
            "slow call: Get took 0 ms, OK, from p (95 more were left out)");
}

}  // namespace
}  // namespace duetime::rpc
