// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/retry_budget.h"

#include <gtest/gtest.h>

#include "client/cpp/caller.h"
#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::client {
namespace {

TEST(RetryBudgetTest, TokensComeWithCallsSecondsAndSuccess) {
  const struct {
    const char* name;
    // Tokens that are taken at the start, without success.
    int taken;
    int milliseconds;
    int calls;
    // Repeats that succeed.
    int given;
    int want;
  } cases[] = {
      {"the start", 0, 0, 0, 0, 100},
      {"empty", 100, 0, 0, 0, 0},
      {"a call adds a tenth", 100, 0, 25, 0, 2},
      {"a second adds one", 100, 3'500, 0, 0, 3},
      {"a success gives two back", 100, 0, 0, 2, 4},
      {"never more than the most", 1, 1'000'000, 1'000, 1, 100},
      {"time that steps back", 99, -5'000, 0, 0, 1},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    const RetryBudget::SteadyTime start;
    RetryBudget budget(start);
    for (int i = 0; i < test.taken; ++i) EXPECT_TRUE(budget.Take(start));
    const RetryBudget::SteadyTime now = start + std::chrono::milliseconds(test.milliseconds);
    for (int i = 0; i < test.calls; ++i) budget.OnCall(now);
    for (int i = 0; i < test.given; ++i) budget.GiveBack();
    int tokens = 0;
    while (budget.Take(now)) ++tokens;
    EXPECT_EQ(tokens, test.want);
  }
}

TEST(RuleOfTest, TheProtosSayWhatMayBeRepeated) {
  v1::RescheduleRequest reschedule;
  EXPECT_EQ(RuleOf(reschedule), OnUnavailable::kRepeat);
  reschedule.set_etag("e");
  EXPECT_EQ(RuleOf(reschedule), OnUnavailable::kReturn);
  EXPECT_EQ(RuleOf(v1::GetRequest()), OnUnavailable::kRepeat);
  EXPECT_EQ(RuleOf(v1::ScheduleRequest()), OnUnavailable::kRepeat);
  EXPECT_EQ(RuleOf(v1::PullRequest()), OnUnavailable::kReturn);
  EXPECT_EQ(RuleOf(v1::DeleteTopicRequest()), OnUnavailable::kReturn);
}

class CallerBudgetTest : public testing::Test {
 protected:
  // Makes a call whose first `failures` tries fail, and the next one ends with `last`. Sets
  // `tries_`.
  absl::Status Run(const Caller& caller, int failures, const grpc::Status& last = grpc::Status()) {
    tries_ = 0;
    int counted = 0;
    return caller.Run(
        OnUnavailable::kRepeat,
        [&](grpc::ClientContext*) {
          return ++tries_ > failures ? last
                                     : grpc::Status(grpc::StatusCode::UNAVAILABLE, "starting");
        },
        &counted, absl::ZeroDuration());
  }

  static ClientOptions Options(absl::Duration deadline) {
    ClientOptions options;
    options.deadline = deadline;
    options.backoff.initial = options.backoff.max = absl::Milliseconds(1);
    return options;
  }

  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel("unix:/nobody", grpc::InsecureChannelCredentials());
  int tries_ = 0;
};

// A restart of a server takes longer than a few tries.
TEST_F(CallerBudgetTest, ACallIsRepeatedUntilItsDeadline) {
  ClientOptions options = Options(ClientOptions().deadline);
  EXPECT_TRUE(Run(Caller(options, channel_), 10).ok());
  EXPECT_EQ(tries_, 11);
  options.attempts_max = 4;
  EXPECT_TRUE(absl::IsUnavailable(Run(Caller(options, channel_), 10)));
  EXPECT_EQ(tries_, 4);
}

TEST_F(CallerBudgetTest, TheLastTriesAreBeforeTheDeadlineHoweverLongTheWaitsAre) {
  ClientOptions options = Options(absl::Milliseconds(600));
  options.backoff.initial = options.backoff.max = absl::Hours(1);
  EXPECT_TRUE(Run(Caller(options, channel_), 2).ok());
  EXPECT_EQ(tries_, 3);
}

TEST_F(CallerBudgetTest, ARepeatNeedsAToken) {
  const Caller without(Options(absl::Milliseconds(400)), channel_, /*tokens=*/0);
  EXPECT_TRUE(absl::IsUnavailable(Run(without, 1'000)));
  EXPECT_EQ(tries_, 1);
  const Caller with_one(Options(absl::Milliseconds(400)), channel_, /*tokens=*/1);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Run(with_one, 1).ok()) << "a success gives the token back";
    EXPECT_EQ(tries_, 2);
  }
  for (int i = 0; i < 2; ++i) {
    const grpc::Status refusal(grpc::StatusCode::NOT_FOUND, "none");
    EXPECT_TRUE(absl::IsNotFound(Run(with_one, 1, refusal))) << "nor does a refusal cost it";
  }
  // A call that finds no token goes on when there is one: nine tenths of a second later.
  EXPECT_TRUE(Run(Caller(Options(absl::Seconds(10)), channel_, /*tokens=*/0), 1).ok());
  EXPECT_EQ(tries_, 2);
}

}  // namespace
}  // namespace duetime::client
