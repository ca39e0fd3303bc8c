// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/sums.h"

#include <gtest/gtest.h>

namespace duetime::gateway {
namespace {

using State = v1::Operation::State;

TEST(Sums, AnOperationRunsWhileItRunsInACell) {
  constexpr State kRunning = v1::Operation::STATE_RUNNING;
  constexpr State kDone = v1::Operation::STATE_DONE;
  constexpr State kStopped = v1::Operation::STATE_STOPPED;
  constexpr State kFailed = v1::Operation::STATE_FAILED;
  constexpr State kStarting = v1::Operation::STATE_STARTING;
  const struct {
    State a, b, sum;
  } cases[] = {{kDone, kDone, kDone},         {kDone, kRunning, kRunning},
               {kRunning, kFailed, kRunning}, {kFailed, kDone, kFailed},
               {kStopped, kFailed, kFailed},  {kDone, kStopped, kStopped},
               {kStarting, kDone, kStarting}, {kRunning, kStarting, kStarting}};
  for (const auto& one : cases) {
    v1::Operation a;
    a.set_state(one.a);
    a.set_matched(5);
    a.mutable_end_time()->set_seconds(100);
    v1::Operation b;
    b.set_state(one.b);
    b.set_matched(7);
    b.mutable_end_time()->set_seconds(200);
    Add(b, &a);
    EXPECT_EQ(a.state(), one.sum);
    EXPECT_EQ(a.matched(), 12);
    const bool goes_on = one.sum == kRunning || one.sum == kStarting;
    EXPECT_EQ(a.has_end_time(), !goes_on);
    EXPECT_EQ(a.end_time().seconds(), goes_on ? 0 : 200);
  }
}

TEST(Sums, TheSlowestCellDecidesTheProgress) {
  v1::Operation a;
  a.set_state(v1::Operation::STATE_RUNNING);
  a.mutable_progress_time()->set_seconds(100);
  v1::Operation b = a;
  b.mutable_progress_time()->set_seconds(50);
  Add(b, &a);
  EXPECT_EQ(a.progress_time().seconds(), 50);
  b.clear_progress_time();
  Add(b, &a);
  EXPECT_FALSE(a.has_progress_time());
}

TEST(Sums, CountsOfSubscriptions) {
  v1::Subscription a;
  a.mutable_counts()->set_ready(1);
  a.mutable_backlog()->set_messages(5);
  a.mutable_backlog()->mutable_oldest_due_time()->set_seconds(9);
  v1::Subscription b;
  b.mutable_counts()->set_ready(2);
  b.mutable_counts()->set_behind(true);
  b.mutable_backlog()->set_messages(6);
  b.mutable_backlog()->mutable_oldest_due_time()->set_seconds(4);
  Add(b, &a);
  EXPECT_EQ(a.counts().ready(), 3);
  EXPECT_TRUE(a.counts().behind());
  EXPECT_EQ(a.backlog().messages(), 11);
  EXPECT_EQ(a.backlog().oldest_due_time().seconds(), 4);
}

// Buckets without messages are left out.
TEST(Sums, ForecastsHaveTheBucketsOfBoth) {
  const auto make = [](std::initializer_list<std::pair<int64_t, int64_t>> buckets) {
    v1::ForecastResponse forecast;
    for (const auto& [seconds, messages] : buckets) {
      v1::ForecastBucket* const bucket = forecast.add_buckets();
      bucket->mutable_start_time()->set_seconds(seconds);
      bucket->mutable_count()->set_messages(messages);
      forecast.mutable_total()->set_messages(forecast.total().messages() + messages);
    }
    return forecast;
  };
  v1::ForecastResponse sum = make({{60, 1}, {120, 2}, {240, 3}, {300, 4}});
  Add(make({{0, 10}, {120, 20}, {180, 30}, {360, 40}}), &sum);
  sum.clear_overdue();
  sum.clear_later();
  EXPECT_EQ(sum.SerializeAsString(),
            make({{0, 10}, {60, 1}, {120, 22}, {180, 30}, {240, 3}, {300, 4}, {360, 40}})
                .SerializeAsString());
}

}  // namespace
}  // namespace duetime::gateway
