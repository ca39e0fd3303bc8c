// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/backoff.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace duetime::client {
namespace {

const BackoffOptions kOptions = {
    .initial = absl::Milliseconds(100), .max = absl::Seconds(2), .multiplier = 2.0};

TEST(BackoffTest, EveryWaitIsInTheUpperHalfOfAGrowingBound) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Backoff backoff(kOptions, seed);
    absl::Duration bound = kOptions.initial;
    for (int i = 0; i < 20; ++i) {
      const absl::Duration wait = backoff.Next();
      EXPECT_GE(wait, bound / 2) << "seed " << seed << " wait " << i;
      EXPECT_LE(wait, bound) << "seed " << seed << " wait " << i;
      bound = std::min(bound * 2, kOptions.max);
    }
  }
}

TEST(BackoffTest, WaitsDifferBetweenSeedsAndAreTheSameForOne) {
  std::vector<absl::Duration> first_waits;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Backoff a(kOptions, seed);
    Backoff b(kOptions, seed);
    first_waits.push_back(a.Next());
    EXPECT_EQ(first_waits.back(), b.Next());
  }
  std::sort(first_waits.begin(), first_waits.end());
  first_waits.erase(std::unique(first_waits.begin(), first_waits.end()), first_waits.end());
  EXPECT_GT(first_waits.size(), 40u);
}

TEST(BackoffTest, ResetBeginsAgain) {
  Backoff backoff(kOptions, 1);
  for (int i = 0; i < 10; ++i) backoff.Next();
  EXPECT_GE(backoff.Next(), absl::Seconds(1));
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
}

TEST(BackoffTest, NeverShortensWhatTheServerAskedFor) {
  Backoff backoff(kOptions, 1);
  for (int i = 0; i < 10; ++i) EXPECT_GE(backoff.Next(absl::Seconds(30)), absl::Seconds(30));
}

TEST(BackoffTest, WaitsHaveAFloor) {
  const struct {
    int initial_ms;
    int max_ms;
    double multiplier;
    std::vector<int> bounds_ms;
  } cases[] = {
      {0, 0, 2, {50, 50, 50}},
      {-1'000, 0, 0, {50, 50, 50}},
      {0, 400, 2, {50, 100, 200}},
      {100, 5'000, 2, {100, 200, 400}},
  };
  for (const auto& test : cases) {
    Backoff backoff({.initial = absl::Milliseconds(test.initial_ms),
                     .max = absl::Milliseconds(test.max_ms),
                     .multiplier = test.multiplier},
                    /*seed=*/1);
    for (const int bound_ms : test.bounds_ms) {
      const absl::Duration wait = backoff.Next();
      EXPECT_GE(wait, absl::Milliseconds(bound_ms) / 2) << test.initial_ms << " " << test.max_ms;
      EXPECT_LE(wait, absl::Milliseconds(bound_ms)) << test.initial_ms << " " << test.max_ms;
    }
  }
}

}  // namespace
}  // namespace duetime::client
