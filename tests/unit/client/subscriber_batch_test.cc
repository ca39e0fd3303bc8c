// SPDX-License-Identifier: Apache-2.0
//
// The batches of a subscriber: what a call of the handler gets, and what its settlements become.
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/convert.h"
#include "client/cpp/subscriber_state.h"
#include "tests/support/settlements.h"

namespace duetime::client {
namespace {

using Tokens = std::vector<std::string>;

class BatchTest : public testing::Test {
 protected:
  BatchTest() { state_.BeginStream(); }
  ~BatchTest() override { state_.EndStream(); }

  // Receives deliveries with these tokens. `suspect`: the server must confirm their begin.
  void Receive(const Tokens& tokens, bool suspect = false, absl::Duration lease = absl::Hours(1)) {
    const std::shared_ptr<Frame> frame = state_.NewFrame();
    frame->response = v1::SubscribeResponse();
    *frame->response.mutable_started()->mutable_lease_duration() = ToProto(lease);
    for (const std::string& token : tokens) {
      v1::Delivery* delivery = frame->response.add_deliveries();
      delivery->set_lease_token(token);
      delivery->set_confirm_begun(suspect);
    }
    state_.OnFrame(frame);
  }

  void Answer(const std::string& begun, const std::string& refused) {
    const std::shared_ptr<Frame> frame = state_.NewFrame();
    frame->response = v1::SubscribeResponse();
    if (!begun.empty()) frame->response.add_begun(begun);
    if (!refused.empty()) frame->response.add_refused()->set_lease_token(refused);
    state_.OnFrame(frame);
  }

  static Tokens TokensOf(const Batch& batch) {
    Tokens tokens;
    for (const auto& place : batch.places) tokens.push_back(place.delivery().lease_token());
    return tokens;
  }

  Tokens TakeAndAck(int max) {
    std::optional<Batch> batch = state_.TakeBatch(0, max);
    const Tokens tokens = TokensOf(*batch);
    state_.SettleBatch(&*batch, {});
    return tokens;
  }

  v1::SubscribeRequest Write() {
    v1::SubscribeRequest request;
    EXPECT_EQ(state_.NextWrite(&request), SubscriberState::WriteTask::kWrite);
    return request;
  }

  SubscriberState state_{/*handler_threads=*/1, /*extend_max=*/absl::Hours(1)};
};

TEST_F(BatchTest, IsWhatWaitsInTheOrderOfTheStream) {
  Receive({"1", "2"});
  Receive({"3", "4", "5"});
  EXPECT_EQ(TakeAndAck(3), (Tokens{"1", "2", "3"}));
  EXPECT_EQ(TakeAndAck(3), (Tokens{"4", "5"})) << "waits for no other delivery";
  EXPECT_EQ(test::TokensWith(test::kAck, Write()), (Tokens{"1", "2", "3", "4", "5"}));
  EXPECT_EQ(state_.counts().delivered, 5);
}

TEST_F(BatchTest, ItsSettlementsShareARequest) {
  Receive({"1", "2", "3"});
  std::optional<Batch> batch = state_.TakeBatch(0, 3);
  state_.SettleBatch(&*batch,
                     {Settlement::Nack("n"), Settlement::Ack(), Settlement::DeadLetter("d")});
  const v1::SubscribeRequest request = Write();
  ASSERT_EQ(request.settlements_size(), 3);
  EXPECT_EQ(request.settlements(0).nack().reason(), "n");
  EXPECT_EQ(request.settlements(1).lease_token(), "2");
  EXPECT_EQ(request.settlements(1).action_case(), v1::Settlement::ACTION_NOT_SET);
  EXPECT_EQ(request.settlements(2).dead_letter().reason(), "d");
  EXPECT_EQ(batch->places[0].frame, nullptr) << "the batch keeps what is settled";
  EXPECT_EQ(state_.counts().settle_requests, 1);
}

TEST_F(BatchTest, HasNoLeaseThatEnded) {
  Receive({"1", "2", "3"}, /*suspect=*/false, absl::Milliseconds(600));
  const v1::SubscribeRequest extensions = Write();
  EXPECT_EQ(extensions.settlements_size(), 3);
  Answer("", "2");
  EXPECT_EQ(TakeAndAck(3), (Tokens{"1", "3"}));
  EXPECT_EQ(state_.counts().skipped, 1);
}

TEST_F(BatchTest, TheLeaseOfEachDeliveryIsExtendedAndItsBeginReported) {
  Receive({"1", "2"}, /*suspect=*/false, absl::Milliseconds(450));
  Receive({"3"}, /*suspect=*/false, absl::Milliseconds(450));
  std::optional<Batch> batch = state_.TakeBatch(0, 3);
  Tokens extended;
  Tokens begun;
  while (extended.size() < 3 || begun.size() < 3) {
    const v1::SubscribeRequest request = Write();
    for (const auto& token : test::TokensWith(v1::Settlement::kExtend, request)) {
      extended.push_back(token);
    }
    begun.insert(begun.end(), request.begun().begin(), request.begun().end());
  }
  EXPECT_EQ(extended, (Tokens{"1", "2", "3"}));
  EXPECT_EQ(begun, (Tokens{"1", "2", "3"}));
  state_.SettleBatch(&*batch, {});
  EXPECT_EQ(Write().settlements_size(), 3);
  EXPECT_EQ(state_.counts().leases_lost, 0);
}

// A delivery that may have ended its process gets a call of its own.
TEST_F(BatchTest, ADeliveryThatNeedsAConfirmationIsAlone) {
  Receive({"1"});
  Receive({"2", "3"}, /*suspect=*/true);
  Receive({"4", "5"});
  EXPECT_EQ(TakeAndAck(10), Tokens{"1"});
  std::vector<Tokens> batches;
  std::thread handler([&] {
    for (int i = 0; i < 2; ++i) batches.push_back(TakeAndAck(10));
  });
  Tokens begun;
  for (const char* answer : {"2", "3"}) {
    // Its report may leave with the settlement of the delivery before.
    while (begun.empty() || begun.back() != answer) {
      const v1::SubscribeRequest request = Write();
      begun.insert(begun.end(), request.begun().begin(), request.begun().end());
    }
    if (begun.back() == "2") {
      Answer("2", "");
    } else {
      Answer("", "3");
    }
  }
  handler.join();
  EXPECT_EQ(batches, (std::vector<Tokens>{{"2"}, {"4", "5"}}));
  EXPECT_EQ(state_.counts().skipped, 1) << "the refused one";
}

TEST_F(BatchTest, AfterItsStreamItsSettlementsAreLost) {
  Receive({"1", "2"});
  std::optional<Batch> batch = state_.TakeBatch(0, 2);
  state_.EndStream();
  state_.BeginStream();
  Receive({"3"});
  state_.SettleBatch(&*batch, {});
  EXPECT_EQ(state_.counts().lost, 2);
  EXPECT_EQ(TakeAndAck(2), Tokens{"3"});
  EXPECT_EQ(test::TokensWith(test::kAck, Write()), Tokens{"3"});
}

TEST_F(BatchTest, AStopEndsNoBatchAndBeginsNone) {
  Receive({"1", "2", "3"});
  std::optional<Batch> batch = state_.TakeBatch(0, 2);
  state_.RequestStop();
  EXPECT_FALSE(state_.WaitHandled(absl::ZeroDuration()));
  state_.SettleBatch(&*batch, {});
  EXPECT_TRUE(state_.WaitHandled(absl::ZeroDuration()));
  EXPECT_FALSE(state_.TakeBatch(0, 2).has_value());
  const v1::SubscribeRequest request = Write();
  EXPECT_EQ(test::TokensWith(test::kAck, request), (Tokens{"1", "2"}));
  EXPECT_EQ(test::TokensWith(v1::Settlement::kRelease, request), Tokens{"3"});
}

}  // namespace
}  // namespace duetime::client
