// SPDX-License-Identifier: Apache-2.0
//
// Cancel and Get tell the truth about a message in each state of its life.
#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

class CancelGetTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  std::unique_ptr<Subscription> Subscribe(const std::string& topic, Millis lease = Millis(0)) {
    auto subscription = std::make_unique<Subscription>(
        channel_, Subscription::Start{.topic = topic, .lease = lease});
    EXPECT_TRUE(subscription->WaitStarted());
    return subscription;
  }

  // Checks that the message has ended, and that Get and a repeated Cancel report its end.
  void ExpectEnded(const v1::Message& accepted, v1::Message::State state) {
    v1::Message message;
    const grpc::Status status = Get(accepted.id(), &message, v1::MESSAGE_VIEW_FULL);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(message.id(), accepted.id());
    EXPECT_EQ(message.topic(), accepted.topic());
    EXPECT_EQ(message.state(), state);
    EXPECT_EQ(ToTime(message.deliver_time()), ToTime(accepted.deliver_time()));
    EXPECT_EQ(ToTime(message.accept_time()), ToTime(accepted.accept_time()));
    EXPECT_GE(ToTime(message.end_time()), ToTime(accepted.accept_time()));
    // In whole milliseconds, rounded up.
    EXPECT_LE(ToTime(message.end_time()), Clock::now() + Millis(1));
    EXPECT_EQ(message.payload(), "");
    EXPECT_EQ(message.payload_bytes(), accepted.payload_bytes());
    for (const bool stop : {false, true}) {
      const v1::CancelResponse again = MustCancel(accepted.id(), stop);
      EXPECT_EQ(again.outcome(), state == v1::Message::STATE_CANCELLED
                                     ? v1::CancelResponse::OUTCOME_ALREADY_CANCELLED
                                     : v1::CancelResponse::OUTCOME_SETTLED);
      EXPECT_EQ(again.message_id(), accepted.id());
      EXPECT_EQ(again.state(), state);
      EXPECT_EQ(ToTime(again.end_time()), ToTime(message.end_time()));
      EXPECT_FALSE(again.delivery_uncertain());
    }
  }

  void ExpectUnknown(const std::string& id) {
    v1::Message message;
    const grpc::Status status = Get(id, &message);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(InfoOf(status).reason, "MESSAGE_NOT_FOUND");
    EXPECT_EQ(InfoOf(status).domain, "duetime");
    const v1::CancelResponse again = MustCancel(id);
    EXPECT_EQ(again.outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
    EXPECT_EQ(again.state(), v1::Message::STATE_UNSPECIFIED);
    EXPECT_EQ(again.message_id(), "");
    EXPECT_FALSE(again.has_end_time());
    EXPECT_FALSE(again.redelivery_stopped());
    EXPECT_FALSE(again.delivery_uncertain());
  }

  // Checks the same after a kill and a restart.
  void ExpectEndedAfterKill(const v1::Message& accepted, v1::Message::State state) {
    server_->Kill();
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
    ExpectEnded(accepted, state);
  }
};

TEST_F(CancelGetTest, AScheduledMessageIsCancelledAndNeverComes) {
  const v1::Message soon = MustSchedule("t", Millis(400));
  const v1::Message far = MustSchedule("t", Millis(365LL * 24 * 3'600'000));
  for (const v1::Message& message : {soon, far}) {
    const v1::CancelResponse cancelled = MustCancel(message.id());
    EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
    EXPECT_EQ(cancelled.state(), v1::Message::STATE_SCHEDULED);
    EXPECT_FALSE(cancelled.redelivery_stopped());
    EXPECT_FALSE(cancelled.delivery_uncertain());
    ExpectEnded(message, v1::Message::STATE_CANCELLED);
  }
  EXPECT_TRUE(Subscribe("t")->StaysQuiet(Millis(700)));
  EXPECT_EQ(CountsWhen([](const v1::Counts& c) { return c.cancelled() >= 2; }).cancelled(), 2);
}

TEST_F(CancelGetTest, ADueMessageThatNobodyTookIsCancelledAndNeverComes) {
  const v1::Message message = MustSchedule("t", Millis(0));
  EXPECT_EQ(StateOf(message.id()), v1::Message::STATE_DUE);
  const v1::CancelResponse cancelled = MustCancel(message.id());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::Message::STATE_DUE);
  ExpectEnded(message, v1::Message::STATE_CANCELLED);
  EXPECT_TRUE(Subscribe("t")->StaysQuiet(Millis(200)));
}

TEST_F(CancelGetTest, AMessageInFlightIsLeftAlone) {
  const v1::Message message = MustSchedule("t", Millis(0));
  const auto subscription = Subscribe("t");
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  const v1::CancelResponse found = MustCancel(message.id());
  EXPECT_EQ(found.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_EQ(found.state(), v1::Message::STATE_IN_FLIGHT);
  EXPECT_FALSE(found.redelivery_stopped());
  EXPECT_FALSE(found.delivery_uncertain());
  EXPECT_EQ(StateOf(message.id()), v1::Message::STATE_IN_FLIGHT);
  EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
  ExpectEnded(message, v1::Message::STATE_ACKED);
}

TEST_F(CancelGetTest, StopRedeliveryEndsAMessageInFlight) {
  const v1::Message message = MustSchedule("t", Millis(0));
  const auto subscription = Subscribe("t", Millis(1'000));
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  const v1::CancelResponse stopped = MustCancel(message.id(), /*stop_redelivery=*/true);
  EXPECT_EQ(stopped.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_EQ(stopped.state(), v1::Message::STATE_IN_FLIGHT);
  EXPECT_TRUE(stopped.redelivery_stopped());
  EXPECT_FALSE(stopped.delivery_uncertain());
  // The lease is lost, and the message is not delivered again after the lease would have ended.
  EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kLeaseLost);
  EXPECT_TRUE(subscription->StaysQuiet(Millis(1'500)));
  ExpectEnded(message, v1::Message::STATE_CANCELLED);
}

TEST_F(CancelGetTest, AMessageThatWasGivenBackCountsAsDelivered) {
  const v1::Message message = MustSchedule("t", Millis(0));
  const auto subscription = Subscribe("t");
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(60'000)));
  EXPECT_EQ(subscription->Answer(received->delivery.lease_token()), SettleAnswer::kSettled);
  v1::CancelResponse found = MustCancel(message.id());
  EXPECT_EQ(found.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_EQ(found.state(), v1::Message::STATE_DUE);
  EXPECT_FALSE(found.delivery_uncertain());
  EXPECT_FALSE(found.redelivery_stopped());
  found = MustCancel(message.id(), /*stop_redelivery=*/true);
  EXPECT_EQ(found.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_TRUE(found.redelivery_stopped());
  ExpectEnded(message, v1::Message::STATE_CANCELLED);
}

TEST_F(CancelGetTest, AnAckedMessageIsSettledForEver) {
  const v1::Message message = MustSchedule("t", Millis(0));
  {
    const auto subscription = Subscribe("t");
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value());
    EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
  ExpectEnded(message, v1::Message::STATE_ACKED);
  ExpectEndedAfterKill(message, v1::Message::STATE_ACKED);
  EXPECT_TRUE(Subscribe("t")->StaysQuiet(Millis(300)));
}

TEST_F(CancelGetTest, ACancelledMessageStaysSoAfterACrash) {
  const v1::Message message = MustSchedule("t", Millis(200));
  EXPECT_EQ(MustCancel(message.id()).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  ExpectEndedAfterKill(message, v1::Message::STATE_CANCELLED);
  EXPECT_TRUE(Subscribe("t")->StaysQuiet(Millis(500)));
}

TEST_F(CancelGetTest, AMessageThatNeverWasIsNotFound) {
  // A valid id from another server.
  std::string id = MustSchedule("t", Millis(3'600'000)).id();
  id[10] = id[10] == '0' ? '1' : '0';
  ExpectUnknown(id);
}

TEST_F(CancelGetTest, GetShowsWhatTheViewSays) {
  v1::ScheduleRequest request = Request("t", Millis(3'600'000), "payload");
  (*request.mutable_attributes())["k"] = "v";
  const v1::Message accepted = MustSchedule(request);
  for (const v1::MessageView view :
       {v1::MESSAGE_VIEW_UNSPECIFIED, v1::MESSAGE_VIEW_BASIC, v1::MESSAGE_VIEW_FULL}) {
    v1::Message message;
    const grpc::Status status = Get(accepted.id(), &message, view);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(message.id(), accepted.id());
    EXPECT_EQ(message.topic(), "t");
    EXPECT_EQ(message.state(), v1::Message::STATE_SCHEDULED);
    EXPECT_EQ(message.payload_bytes(), 7);
    EXPECT_EQ(ToTime(message.deliver_time()), ToTime(accepted.deliver_time()));
    EXPECT_EQ(ToTime(message.accept_time()), ToTime(accepted.accept_time()));
    EXPECT_EQ(message.attempts(), 0);
    EXPECT_EQ(message.payload(), view == v1::MESSAGE_VIEW_FULL ? "payload" : "");
    EXPECT_EQ(message.attributes_size(), view == v1::MESSAGE_VIEW_FULL ? 1 : 0);
  }
}

TEST_F(CancelGetTest, GetFollowsAMessageThroughItsLife) {
  const v1::Message accepted = MustSchedule("t", Millis(300));
  EXPECT_EQ(StateOf(accepted.id()), v1::Message::STATE_SCHEDULED);
  const auto subscription = Subscribe("t");
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  v1::Message message;
  ASSERT_TRUE(Get(accepted.id(), &message).ok());
  EXPECT_EQ(message.state(), v1::Message::STATE_IN_FLIGHT);
  EXPECT_EQ(message.attempts(), 1);
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(60'000)));
  EXPECT_EQ(subscription->Answer(received->delivery.lease_token()), SettleAnswer::kSettled);
  ASSERT_TRUE(Get(accepted.id(), &message, v1::MESSAGE_VIEW_FULL).ok());
  EXPECT_EQ(message.state(), v1::Message::STATE_DUE);
  EXPECT_EQ(message.attempts(), 1);
  EXPECT_EQ(message.payload(), "p");
}

TEST_F(CancelGetTest, ACancelAfterACrashSaysThatADeliveryIsUncertain) {
  // A subscriber of a crashed run took this message. The next run cannot know that.
  const v1::Message taken = MustSchedule("t", Millis(0));
  {
    const auto subscription = Subscribe("t");
    ASSERT_TRUE(subscription->Next().has_value());
    server_->Kill();
  }
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  const v1::CancelResponse found = MustCancel(taken.id());
  EXPECT_EQ(found.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_TRUE(found.delivery_uncertain());
  const v1::CancelResponse stopped = MustCancel(taken.id(), true);
  EXPECT_EQ(stopped.outcome(), v1::CancelResponse::OUTCOME_IN_FLIGHT);
  EXPECT_TRUE(stopped.redelivery_stopped());
  ExpectEnded(taken, v1::Message::STATE_CANCELLED);
  EXPECT_TRUE(Subscribe("t")->StaysQuiet(Millis(300)));
}

TEST_F(CancelGetTest, ACancelAfterACleanStopIsCertain) {
  const v1::Message waiting = MustSchedule("t", Millis(0));
  const auto exit = server_->Stop(Millis(20'000));
  ASSERT_TRUE(exit.has_value());
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  EXPECT_EQ(MustCancel(waiting.id()).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
}

}  // namespace
}  // namespace duetime::test
