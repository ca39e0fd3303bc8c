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

TEST(BackoffTest, RepairsOptionsThatMakeNoSense) {
  Backoff backoff({.initial = -absl::Seconds(1), .max = absl::ZeroDuration(), .multiplier = 0}, 1);
  for (int i = 0; i < 10; ++i) {
    const absl::Duration wait = backoff.Next();
    EXPECT_GT(wait, absl::ZeroDuration());
    EXPECT_LE(wait, absl::Milliseconds(1));
  }
}

}  // namespace
}  // namespace duetime::client
