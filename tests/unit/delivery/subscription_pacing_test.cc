// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/pace/subscription_pacing.h"

#include "gtest/gtest.h"

namespace duetime::delivery {
namespace {

constexpr storage::SubscriptionId kSubscription{1};
constexpr uint64_t kStart = 100'000;

base::Now TimeAt(uint64_t ms) { return {.wall_ms = ms, .mono_ms = ms}; }

// How many of `wanted` messages that were due at `due_ms` are granted.
int Granted(SubscriptionPacing* pacing, uint64_t now_ms, uint64_t due_ms, int wanted) {
  int granted = 0;
  while (granted < wanted && pacing->Take(TimeAt(now_ms), due_ms)) ++granted;
  return granted;
}

TEST(SubscriptionPacingTest, GrantsEverythingWithoutLimits) {
  FailureRate rate(0);
  SubscriptionPacing pacing;
  pacing.Start(TimeAt(kStart), 0, &rate);
  EXPECT_EQ(Granted(&pacing, kStart, kStart, 100'000), 100'000);
}

TEST(SubscriptionPacingTest, OnlyMessagesOfTheDowntimeRamp) {
  FailureRate rate(0);
  SubscriptionPacing pacing;
  pacing.Start(TimeAt(kStart), 100, &rate);
  EXPECT_EQ(Granted(&pacing, kStart, kStart, 1'000), 10) << "what the ramp gives in 100 ms";
  EXPECT_EQ(Granted(&pacing, kStart, kStart + 1, 1'000), 1'000) << "due after the start";
  EXPECT_EQ(pacing.Wait(TimeAt(kStart), kStart), kStart + 10);
  EXPECT_EQ(Granted(&pacing, kStart + 10, kStart, 1'000), 1);
}

TEST(SubscriptionPacingTest, TheTopicsRateHolds) {
  FailureRate rate(0);
  protocol::TopicPace pace;
  pace.Set(1'000, 5);
  SubscriptionPacing pacing;
  pacing.Start(TimeAt(kStart), 0, &rate);
  pacing.SetClock(pace.ClockOf(kSubscription));
  EXPECT_EQ(Granted(&pacing, kStart, kStart, 100), 5);
  EXPECT_GT(pacing.Wait(TimeAt(kStart), kStart), kStart);
  EXPECT_EQ(Granted(&pacing, kStart + 3, kStart, 100), 3);
  pacing.SetClock(nullptr);
  EXPECT_EQ(Granted(&pacing, kStart + 3, kStart, 100), 100);
}

TEST(SubscriptionPacingTest, SaysWhichLimitItWaitsFor) {
  FailureRate rate(1'000);
  protocol::TopicPace pace;
  pace.Set(1'000, 5);
  SubscriptionPacing pacing;
  pacing.Start(TimeAt(kStart), 1, &rate);
  // The ramp lasts, but it is not for messages that were due after the start.
  pacing.SetClock(pace.ClockOf(kSubscription));
  Granted(&pacing, kStart, kStart + 1, 100);
  pacing.Wait(TimeAt(kStart), kStart + 1);
  EXPECT_EQ(pacing.waits_for, protocol::WaitReason::kRate);
  pacing.SetClock(nullptr);
  Granted(&pacing, kStart, kStart, 100);
  pacing.Wait(TimeAt(kStart), kStart);
  EXPECT_EQ(pacing.waits_for, protocol::WaitReason::kStartup);
  for (int i = 0; i < 10'000; ++i) pacing.throttle.OnFailure(kStart);
  Granted(&pacing, kStart, kStart + 1, 10'000);
  pacing.Wait(TimeAt(kStart), kStart + 1);
  EXPECT_EQ(pacing.waits_for, protocol::WaitReason::kFailures);
}

// The throttle gets back what the topic's rate did not let go.
TEST(SubscriptionPacingTest, ARefusalCostsNoOtherLimit) {
  FailureRate rate(1'000);
  protocol::TopicPace pace;
  pace.Set(1, 1);
  SubscriptionPacing pacing;
  pacing.Start(TimeAt(kStart), 0, &rate);
  pacing.SetClock(pace.ClockOf(kSubscription));
  for (int i = 0; i < 1'000; ++i) pacing.throttle.OnFailure(kStart);
  ASSERT_TRUE(pacing.throttle.slowed());
  EXPECT_EQ(Granted(&pacing, kStart + 50, kStart, 100), 1);
  pacing.SetClock(nullptr);
  EXPECT_EQ(Granted(&pacing, kStart + 50, kStart, 100), 49) << "50 in 50 ms, one is gone";
}

}  // namespace
}  // namespace duetime::delivery
