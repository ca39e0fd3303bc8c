// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/subscriber_state.h"

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "client/cpp/convert.h"
#include "tests/support/settlements.h"

namespace duetime::client {
namespace {

constexpr int kCredit = 3;
constexpr int kDeliveries = 8;
constexpr int kSettled = 5;

// Leases that ended at the server give the credit back, so the subscriber may hold more deliveries
// than the credit, and settle all of them. The server ends a stream that sends too much at once.
TEST(SubscriberStateTest, ARequestHoldsNoMoreThanTheCredit) {
  SubscriberState state(/*handler_threads=*/1, /*extend_max=*/absl::Hours(1));
  ASSERT_EQ(state.BeginStream(), 0);
  const std::shared_ptr<Frame> frame = state.NewFrame();
  frame->response.mutable_started()->set_max_outstanding_messages(kCredit);
  *frame->response.mutable_started()->mutable_lease_duration() = ToProto(absl::Milliseconds(300));
  for (int i = 0; i < kDeliveries; ++i) {
    frame->response.add_deliveries()->set_lease_token(std::to_string(i));
  }
  state.OnFrame(frame);
  std::optional<Work> work = state.TakeWork(0);
  const Settlement settlements[kSettled] = {Settlement::Ack(), Settlement::Nack("busy"),
                                            Settlement::DeadLetter("bad"), Settlement::Release(),
                                            Settlement::Ack()};
  for (const Settlement& settlement : settlements) {
    EXPECT_TRUE(state.Settle(&*work, settlement));
  }

  std::set<std::string> settled;
  std::set<std::string> extended;
  while (settled.size() < kSettled || extended.size() < kDeliveries - kSettled) {
    v1::SubscribeRequest request;
    ASSERT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
    for (const v1::Settlement& one : request.settlements()) {
      (one.has_extend() ? extended : settled).insert(one.lease_token());
    }
    const int elements = request.settlements_size() + request.begun_size();
    EXPECT_GT(elements, 0);
    EXPECT_LE(elements, kCredit);
  }
  EXPECT_EQ(settled, (std::set<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(extended, (std::set<std::string>{"5", "6", "7"}));
  state.EndStream();
}

v1::SubscribeResponse OneDelivery() {
  v1::SubscribeResponse response;
  *response.mutable_started()->mutable_lease_duration() = ToProto(absl::Hours(1));
  response.add_deliveries()->set_lease_token("1");
  return response;
}

void Receive(SubscriberState* state, const v1::SubscribeResponse& response) {
  const std::shared_ptr<Frame> frame = state->NewFrame();
  frame->response = response;
  state->OnFrame(frame);
}

// The server cannot see whether a handler that settles nothing has begun, so this is reported.
TEST(SubscriberStateTest, ALeftDeliveryIsReported) {
  SubscriberState state(/*handler_threads=*/1, /*extend_max=*/absl::Hours(1));
  ASSERT_EQ(state.BeginStream(), 0);
  Receive(&state, OneDelivery());
  std::optional<Work> work = state.TakeWork(0);
  EXPECT_FALSE(state.Settle(&*work, Settlement::Leave()));
  v1::SubscribeRequest request;
  ASSERT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
  ASSERT_EQ(request.begun_size(), 1);
  EXPECT_EQ(request.begun(0), "1");
  EXPECT_EQ(state.counts().left, 1);
  EXPECT_EQ(state.counts().settle_requests, 0) << "a report settles nothing";
}

// A message that may have ended a process is handled only once the server knows of it.
TEST(SubscriberStateTest, ASuspectIsHandledAfterTheConfirmation) {
  v1::SubscribeResponse confirmed;
  confirmed.add_begun("1");
  v1::SubscribeResponse refused;
  refused.add_refused()->set_lease_token("1");
  const struct {
    const char* name;
    std::function<void(SubscriberState*)> answer;
    bool handled;
    int64_t lost;
    int released;
  } cases[] = {
      {"confirmed", [&](auto* state) { Receive(state, confirmed); }, true, 0, 0},
      {"refused", [&](auto* state) { Receive(state, refused); }, false, 1, 0},
      {"stop", [](auto* state) { state->RequestStop(); }, false, 0, 1},
      {"the stream ends", [](auto* state) { state->EndStream(); }, false, 0, 0},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    SubscriberState state(/*handler_threads=*/1, /*extend_max=*/absl::Hours(1));
    ASSERT_EQ(state.BeginStream(), 0);
    v1::SubscribeResponse suspect = OneDelivery();
    suspect.mutable_deliveries(0)->set_confirm_begun(true);
    Receive(&state, suspect);
    bool handled = false;
    std::thread handler([&] {
      while (std::optional<Work> work = state.TakeWork(0)) {
        handled = true;
        state.Settle(&*work, Settlement::Ack());
      }
    });
    v1::SubscribeRequest request;
    EXPECT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
    EXPECT_EQ(request.begun_size(), 1);
    test.answer(&state);
    if (test.handled) {
      EXPECT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
      EXPECT_EQ(test::TokensWith(test::kAck, request).size(), 1u);
    }
    while (!test.handled && state.counts().skipped == 0) std::this_thread::yield();
    state.RequestStop();
    handler.join();
    EXPECT_EQ(handled, test.handled);
    EXPECT_EQ(state.counts().skipped, test.handled ? 0 : 1);
    EXPECT_EQ(state.counts().leases_lost, test.lost);
    if (test.released > 0) {
      EXPECT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
    }
    EXPECT_EQ(test::With(v1::Settlement::kRelease, request).size(),
              static_cast<size_t>(test.released));
  }
}

// The server delivers a message again that was given back. If the handler never returns, the queue
// must not keep each copy.
TEST(SubscriberStateTest, WhatIsGivenBackIsDropped) {
  SubscriberState state(/*handler_threads=*/1, /*extend_max=*/absl::ZeroDuration());
  ASSERT_EQ(state.BeginStream(), 0);
  v1::SubscribeResponse short_lease = OneDelivery();
  *short_lease.mutable_started()->mutable_lease_duration() = ToProto(absl::Milliseconds(3));
  const std::shared_ptr<Frame> frame = state.NewFrame();
  frame->response = short_lease;
  state.OnFrame(frame);
  v1::SubscribeRequest request;
  ASSERT_EQ(state.NextWrite(&request), SubscriberState::WriteTask::kWrite);
  ASSERT_EQ(test::With(v1::Settlement::kRelease, request).size(), 1u);
  EXPECT_EQ(frame.use_count(), 1) << "the queue keeps it";
  EXPECT_EQ(state.counts().skipped, 1);
  v1::SubscribeResponse settled;
  settled.add_settled("1");
  Receive(&state, settled);
  EXPECT_EQ(state.counts().released, 0) << "no handler gave it back";
  state.RequestStop();
  EXPECT_FALSE(state.TakeWork(0).has_value());
  EXPECT_TRUE(state.WaitConfirmed(absl::ZeroDuration()));
}

}  // namespace
}  // namespace duetime::client
