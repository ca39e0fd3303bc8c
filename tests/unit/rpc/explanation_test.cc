// SPDX-License-Identifier: Apache-2.0
//
// What Explain tells of attempts: the API's form of what is stored, and the summary.
#include "server/api/messages/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "server/api/messages/message_view.h"
#include "storage/attempts.h"

namespace duetime::api {
namespace {

using storage::AttemptEnd;
using testing::EndsWith;

v1::ExplainResponse WithAttempt(const storage::Attempt& attempt) {
  v1::ExplainResponse response;
  response.mutable_message()->set_state(v1::Message::STATE_DUE);
  v1::SubscriptionStatus* const status = response.add_subscriptions();
  status->set_state(v1::Message::STATE_DUE);
  FillAttempts(storage::AddAttempt("", attempt), status->mutable_last_attempts());
  FillExplanation({.due_ms = 1}, /*now_ms=*/2, &response);
  return response;
}

TEST(ExplanationTest, EachEndOfAnAttemptHasItsNameAndItsWords) {
  const struct {
    AttemptEnd end;
    v1::Attempt::End proto;
    const char* words;
  } cases[] = {
      {AttemptEnd::kNacked, v1::Attempt::END_NACKED, "was nacked."},
      {AttemptEnd::kLeaseLost, v1::Attempt::END_LEASE_ENDED, "ended with its lease."},
      {AttemptEnd::kStreamEnded, v1::Attempt::END_STREAM_ENDED, "ended with its stream."},
      {AttemptEnd::kBegunStreamEnded, v1::Attempt::END_STREAM_ENDED, "ended with its stream."},
      {AttemptEnd::kReleased, v1::Attempt::END_RELEASED, "was released."},
      {AttemptEnd::kTakenBack, v1::Attempt::END_TAKEN_BACK, "was taken back by the server."},
      {AttemptEnd::kNotBegun, v1::Attempt::END_NOT_BEGUN, "ended before its handler began."},
  };
  for (const auto& test : cases) {
    const auto response = WithAttempt({.number = 3, .end = test.end});
    EXPECT_EQ(response.subscriptions(0).last_attempts(0).end(), test.proto) << test.words;
    EXPECT_THAT(response.summary(), EndsWith(std::string(" Its attempt 3 ") + test.words));
  }
}

TEST(ExplanationTest, AnAttemptHasItsTimesAndTexts) {
  const auto response = WithAttempt({.number = 3,
                                     .end = AttemptEnd::kNacked,
                                     .end_ms = 5'250,
                                     .held_ms = 40,
                                     .delay_ms = 2'000,
                                     .client_id = "worker-1",
                                     .reason = "no\n\"way\""});
  const v1::Attempt& attempt = response.subscriptions(0).last_attempts(0);
  EXPECT_EQ(attempt.number(), 3);
  EXPECT_EQ(attempt.end_time().seconds(), 5);
  EXPECT_EQ(attempt.end_time().nanos(), 250'000'000);
  EXPECT_EQ(attempt.held().nanos(), 40'000'000);
  EXPECT_EQ(attempt.delay().seconds(), 2);
  EXPECT_EQ(attempt.client_id(), "worker-1");
  EXPECT_EQ(attempt.reason(), "no\n\"way\"");
  EXPECT_THAT(response.summary(), EndsWith(R"(was nacked: "no\n\"way\"".)"));
  EXPECT_FALSE(WithAttempt({.number = 1, .end = AttemptEnd::kReleased})
                   .subscriptions(0)
                   .last_attempts(0)
                   .has_delay());
}

// Not since its first delivery.
TEST(ExplanationTest, ADueMessageWaitsSinceItWasDue) {
  v1::ExplainResponse response;
  response.mutable_message()->set_state(v1::Message::STATE_DUE);
  FillExplanation({.due_ms = 10'000, .fire_ms = 10'000, .dispatch_ms = 10'005}, /*now_ms=*/100'000,
                  &response);
  EXPECT_THAT(response.summary(), testing::HasSubstr("It has been due for 1m30s"));
}

}  // namespace
}  // namespace duetime::api
