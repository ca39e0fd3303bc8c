// SPDX-License-Identifier: Apache-2.0
//
// The life of a message from Schedule to ack, against the built daemon with one and three shards.
#include <functional>
#include <gmock/gmock.h>
#include <map>
#include <random>
#include <set>

#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

class DeliveryTest : public DaemonTest, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override { StartDaemon({"--shards=" + std::to_string(GetParam())}); }

  std::unique_ptr<Subscription> Subscribe(const Subscription::Start& start) {
    auto subscription = std::make_unique<Subscription>(channel_, start);
    EXPECT_TRUE(subscription->WaitStarted());
    return subscription;
  }
};

INSTANTIATE_TEST_SUITE_P(Shards, DeliveryTest, testing::Values(1, 3));

TEST_P(DeliveryTest, AMessageArrivesAsItWasSentAndHasEndedOnceAcked) {
  v1::ScheduleRequest request = Request("t", Millis(150), std::string("\0\xff payload", 10));
  (*request.mutable_attributes())["key"] = "wert ü";
  (*request.mutable_attributes())["empty"] = "";
  const auto before = Clock::now();
  const v1::Message accepted = MustSchedule(request);
  EXPECT_EQ(accepted.id().size(), 26u);
  EXPECT_EQ(accepted.topic(), "t");
  EXPECT_EQ(accepted.state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(accepted.payload_bytes(), 10);
  EXPECT_TRUE(accepted.payload().empty());
  EXPECT_EQ(accepted.attributes_size(), 0);
  EXPECT_EQ(accepted.attempts(), 0);
  // The server's clock counts whole milliseconds.
  EXPECT_GE(ToTime(accepted.deliver_time()), std::chrono::floor<Millis>(before) + Millis(150));
  EXPECT_LE(ToTime(accepted.deliver_time()), Clock::now() + Millis(151));
  EXPECT_EQ(accepted.deliver_time().nanos() % 1'000'000, 0);

  const auto subscription = Subscribe({.topic = "t"});
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  const v1::Delivery& delivery = received->delivery;
  EXPECT_EQ(delivery.message_id(), accepted.id());
  EXPECT_EQ(delivery.payload(), request.payload());
  EXPECT_EQ(delivery.attributes_size(), 2);
  EXPECT_EQ(delivery.attributes().at("key"), "wert ü");
  EXPECT_EQ(delivery.attributes().at("empty"), "");
  EXPECT_EQ(delivery.attempt(), 1);
  EXPECT_FALSE(delivery.maybe_redelivered());
  EXPECT_EQ(ToTime(delivery.deliver_time()), ToTime(accepted.deliver_time()));
  EXPECT_EQ(ToTime(delivery.accept_time()), ToTime(accepted.accept_time()));
  EXPECT_GE(received->time, ToTime(accepted.deliver_time()));
  EXPECT_GE(client::FromProto(delivery.lateness()), absl::ZeroDuration());

  EXPECT_EQ(subscription->AckAndWait(delivery), SettleAnswer::kSettled);
  v1::Message message;
  EXPECT_TRUE(Get(accepted.id(), &message, v1::MESSAGE_VIEW_FULL).ok());
  EXPECT_EQ(message.state(), v1::Message::STATE_ACKED);
  EXPECT_TRUE(message.payload().empty());
  EXPECT_EQ(CountsWhen([](const v1::Counts& c) { return c.acked() >= 1; }).acked(), 1);
}

TEST_P(DeliveryTest, WhatIsPastIsDueAtOnce) {
  const v1::Message zero = MustSchedule("t", Millis(0));
  EXPECT_EQ(zero.state(), v1::Message::STATE_DUE);
  v1::ScheduleRequest request = Request("t", Millis(0));
  request.mutable_deliver_time()->set_seconds(1'000'000'000);
  const v1::Message past = MustSchedule(request);
  EXPECT_EQ(past.state(), v1::Message::STATE_DUE);
  EXPECT_EQ(past.deliver_time().seconds(), 1'000'000'000);
  request.mutable_deliver_time()->set_seconds(-62'135'596'800);
  const v1::Message year_one = MustSchedule(request);
  EXPECT_EQ(year_one.state(), v1::Message::STATE_DUE);
  EXPECT_EQ(year_one.deliver_time().seconds(), 0) << "times before 1970 become 1970";
  const auto subscription = Subscribe({.topic = "t"});
  std::set<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << i;
    ids.insert(received->delivery.message_id());
    if (received->delivery.message_id() == past.id()) {
      EXPECT_GT(client::FromProto(received->delivery.lateness()), absl::Hours(100'000));
    }
  }
  EXPECT_THAT(ids, testing::UnorderedElementsAre(zero.id(), past.id(), year_one.id()));
}

TEST_P(DeliveryTest, FractionsOfAMillisecondAreRoundedUp) {
  v1::ScheduleRequest request = Request("t", Millis(0));
  request.mutable_delay()->set_seconds(3'600);
  request.mutable_delay()->set_nanos(1);
  const v1::Message accepted = MustSchedule(request);
  EXPECT_EQ(client::FromProto(accepted.deliver_time()) - client::FromProto(accepted.accept_time()),
            absl::Hours(1) + absl::Milliseconds(1));
  request.mutable_deliver_time()->set_seconds(2'000'000'000);
  request.mutable_deliver_time()->set_nanos(500'000'001);
  const v1::Message absolute = MustSchedule(request);
  EXPECT_EQ(absolute.deliver_time().seconds(), 2'000'000'000);
  EXPECT_EQ(absolute.deliver_time().nanos(), 501'000'000);
}

TEST_P(DeliveryTest, NothingIsEverEarly) {
  constexpr int kMessages = 1'000;
  const auto seed = static_cast<uint32_t>(std::random_device{}());
  RecordProperty("seed", std::to_string(seed));
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const auto subscription = Subscribe({.topic = "t", .messages = kMessages});
  v1::ScheduleBatchRequest batch;
  std::map<std::string, Clock::time_point> expected;
  for (int i = 0; i < kMessages; i += 100) {
    batch.Clear();
    for (int j = 0; j < 100; ++j) {
      *batch.add_messages() = Request("t", Millis(random() % 2'000));
    }
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ScheduleBatchResponse response;
    ASSERT_TRUE(messages_->ScheduleBatch(&context, batch, &response).ok());
    ASSERT_EQ(response.results_size(), 100);
    for (const v1::ScheduleResult& result : response.results()) {
      ASSERT_TRUE(result.has_message()) << result.error().message();
      expected[result.message().id()] = ToTime(result.message().deliver_time());
    }
  }
  ASSERT_EQ(expected.size(), static_cast<size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << i;
    const auto due = expected.find(received->delivery.message_id());
    ASSERT_NE(due, expected.end()) << "twice, or unknown";
    EXPECT_GE(received->time, due->second)
        << "early by " << std::chrono::duration<double>(due->second - received->time).count();
    expected.erase(due);
  }
  EXPECT_TRUE(subscription->StaysQuiet(Millis(50)));
}

TEST_P(DeliveryTest, ABatchAnswersEachItemInOrder) {
  v1::ScheduleBatchRequest batch;
  *batch.add_messages() = Request("t", Millis(0), "first");
  *batch.add_messages() = Request("", Millis(0));
  *batch.add_messages() = Request("other", Millis(3'600'000), "third");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ScheduleBatchResponse response;
  ASSERT_TRUE(messages_->ScheduleBatch(&context, batch, &response).ok());
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).message().topic(), "t");
  EXPECT_EQ(response.results(0).message().payload_bytes(), 5);
  EXPECT_EQ(response.results(2).message().topic(), "other");
  const absl::Status refused = client::ToAbslStatus(response.results(1).error());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client::GetErrorInfo(refused).reason, "INVALID_TOPIC");
  ASSERT_EQ(client::GetErrorInfo(refused).field_violations.size(), 1u);
  EXPECT_EQ(client::GetErrorInfo(refused).field_violations[0].field, "messages[1].topic");
  EXPECT_EQ(StateOf(response.results(2).message().id()), v1::Message::STATE_SCHEDULED);
}

TEST_P(DeliveryTest, ALeaseThatEndsGivesTheMessageOutAgain) {
  const v1::Message accepted = MustSchedule("t", Millis(0));
  const auto subscription = Subscribe({.topic = "t", .lease = Millis(1'000)});
  const auto first = subscription->Next();
  ASSERT_TRUE(first.has_value());
  const auto second = subscription->Next();
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->delivery.message_id(), accepted.id());
  EXPECT_EQ(second->delivery.attempt(), 2);
  EXPECT_TRUE(second->delivery.maybe_redelivered());
  EXPECT_NE(second->delivery.lease_token(), first->delivery.lease_token());
  // Clocks count whole milliseconds, and the first delivery arrives a moment after it was sent.
  EXPECT_GE(second->time - first->time, Millis(900));
  EXPECT_LE(second->time - first->time, Millis(5'000));
  // The first lease is over, so its ack is refused and the second lease goes on.
  EXPECT_EQ(subscription->AckAndWait(first->delivery), SettleAnswer::kLeaseLost);
  EXPECT_EQ(StateOf(accepted.id()), v1::Message::STATE_IN_FLIGHT);
  EXPECT_EQ(subscription->AckAndWait(second->delivery), SettleAnswer::kSettled);
  EXPECT_EQ(subscription->AckAndWait(second->delivery), SettleAnswer::kLeaseLost);
}

TEST_P(DeliveryTest, AnExtendedLeaseHolds) {
  MustSchedule("t", Millis(0));
  const auto subscription = Subscribe({.topic = "t", .lease = Millis(1'000)});
  const auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  const std::string token = received->delivery.lease_token();
  EXPECT_TRUE(subscription->Extend(received->delivery, Millis(60'000)));
  EXPECT_EQ(subscription->Answer(token), SettleAnswer::kExtended);
  EXPECT_TRUE(subscription->StaysQuiet(Millis(1'600)));
  // A value out of range is refused, and the lease goes on.
  EXPECT_TRUE(subscription->Extend(received->delivery, Millis(999)));
  EXPECT_EQ(subscription->Answer(token), SettleAnswer::kOutOfRange);
  EXPECT_TRUE(subscription->Extend(received->delivery, Millis(12 * 3'600'000 + 1)));
  EXPECT_EQ(subscription->Answer(token), SettleAnswer::kOutOfRange);
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(12 * 3'600'000 + 1)));
  EXPECT_EQ(subscription->Answer(token), SettleAnswer::kOutOfRange);
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(-1)));
  EXPECT_EQ(subscription->Answer(token), SettleAnswer::kOutOfRange);
  EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
}

TEST_P(DeliveryTest, ANackGivesItOutAgainAfterItsDelay) {
  const v1::Message accepted = MustSchedule("t", Millis(0));
  const auto subscription = Subscribe({.topic = "t"});
  auto received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  // A retry without a delay.
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(0)));
  EXPECT_EQ(subscription->Answer(received->delivery.lease_token()), SettleAnswer::kSettled);
  received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.attempt(), 2);
  // A retry after the delay, not sooner.
  const auto nacked = Clock::now();
  EXPECT_TRUE(subscription->Nack(received->delivery, Millis(400)));
  EXPECT_EQ(subscription->Answer(received->delivery.lease_token()), SettleAnswer::kSettled);
  EXPECT_EQ(StateOf(accepted.id()), v1::Message::STATE_DUE);
  received = subscription->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.attempt(), 3);
  EXPECT_GE(received->time - nacked, Millis(399));
  EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
}

TEST_P(DeliveryTest, AStreamThatEndsGivesItsLeasesBackAtOnce) {
  const v1::Message accepted = MustSchedule("t", Millis(0));
  auto first = Subscribe({.topic = "t", .lease = Millis(3'600'000)});
  ASSERT_TRUE(first->Next().has_value());
  const auto second = Subscribe({.topic = "t"});
  EXPECT_TRUE(second->StaysQuiet(Millis(50)));
  const auto broken = Clock::now();
  // Cancels the stream, like a client that crashed.
  first->Cancel();
  auto received = second->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), accepted.id());
  EXPECT_EQ(received->delivery.attempt(), 2);
  EXPECT_LE(received->time - broken, Millis(5'000));
  // Closes the stream cleanly.
  const auto third = Subscribe({.topic = "t"});
  second->HalfClose();
  const auto end = second->WaitEnd(Millis(10'000));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->ok()) << end->error_message();
  received = third->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.attempt(), 3);
}

// However a client ends its stream, it may have died of a message.
TEST_P(DeliveryTest, WhatAStreamHeldComesAgainAlone) {
  const std::vector<std::function<void(Subscription*)>> ends = {
      [](Subscription* stream) { stream->Cancel(); },
      [](Subscription* stream) { stream->HalfClose(); },
  };
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string topic = "t" + std::to_string(i);
    auto first = Subscribe({.topic = topic, .reports_begun = true});
    MustSchedule(topic, Millis(0));
    MustSchedule(topic, Millis(0));
    for (int n = 0; n < 2; ++n) {
      const auto received = first->Next();
      ASSERT_TRUE(received.has_value());
      EXPECT_FALSE(received->delivery.confirm_begun());
    }
    ends[i](first.get());
    ASSERT_TRUE(first->WaitEnd(Millis(10'000)).has_value());
    const auto second = Subscribe({.topic = topic, .reports_begun = true});
    for (int n = 0; n < 2; ++n) {
      const auto received = second->Next();
      ASSERT_TRUE(received.has_value());
      EXPECT_TRUE(received->delivery.confirm_begun());
      EXPECT_EQ(second->waiting(), 0u);
      EXPECT_EQ(second->AckAndWait(received->delivery), SettleAnswer::kSettled);
    }
  }
}

TEST_P(DeliveryTest, CreditInMessagesIsNeverExceeded) {
  constexpr int kMessages = 60;
  for (int i = 0; i < kMessages; ++i) MustSchedule("t", Millis(0));
  const auto subscription = Subscribe({.topic = "t", .messages = 7});
  EXPECT_EQ(subscription->started().max_outstanding_messages(), 7);
  std::set<std::string> ids;
  std::vector<v1::Delivery> held;
  while (ids.size() < kMessages) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << ids.size();
    EXPECT_TRUE(ids.insert(received->delivery.message_id()).second);
    held.push_back(received->delivery);
    ASSERT_LE(held.size() + subscription->waiting(), 7u);
    if (held.size() < 7 && ids.size() < kMessages) continue;
    // The credit is used up, so no delivery comes until one is settled.
    if (ids.size() <= 14) {
      EXPECT_TRUE(subscription->StaysQuiet(Millis(60)));
    }
    for (int i = 0; i < 3 && !held.empty(); ++i) {
      EXPECT_EQ(subscription->AckAndWait(held.back()), SettleAnswer::kSettled);
      held.pop_back();
    }
  }
}

TEST_P(DeliveryTest, CreditInBytesIsNeverExceeded) {
  const std::string payload(1'000, 'x');
  for (int i = 0; i < 20; ++i) MustSchedule("t", Millis(0), payload);
  const auto subscription = Subscribe({.topic = "t", .messages = 100, .bytes = 3'500});
  std::vector<v1::Delivery> held;
  for (int i = 0; i < 3; ++i) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << i;
    held.push_back(received->delivery);
  }
  EXPECT_TRUE(subscription->StaysQuiet(Millis(100)));
  EXPECT_EQ(subscription->AckAndWait(held[0]), SettleAnswer::kSettled);
  EXPECT_TRUE(subscription->Next().has_value());
  EXPECT_TRUE(subscription->StaysQuiet(Millis(100)));
}

TEST_P(DeliveryTest, AMessageLargerThanTheCreditComesAlone) {
  for (int i = 0; i < 3; ++i) MustSchedule("t", Millis(0), std::string(10'000, 'x'));
  const auto subscription = Subscribe({.topic = "t", .messages = 100, .bytes = 100});
  for (int i = 0; i < 3; ++i) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << i;
    EXPECT_TRUE(subscription->StaysQuiet(Millis(50)));
    EXPECT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
}

TEST_P(DeliveryTest, TopicsDoNotMeet) {
  const v1::Message a = MustSchedule("a", Millis(0));
  const v1::Message b = MustSchedule("a/b", Millis(0));
  const auto of_b = Subscribe({.topic = "a/b"});
  const auto received = of_b->Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), b.id());
  EXPECT_TRUE(of_b->StaysQuiet(Millis(100)));
  EXPECT_EQ(StateOf(a.id()), v1::Message::STATE_DUE);
}

TEST_P(DeliveryTest, SubscribersOfATopicShareItsMessages) {
  constexpr int kMessages = 200;
  const auto one = Subscribe({.topic = "t", .messages = 10});
  const auto two = Subscribe({.topic = "t", .messages = 10});
  std::set<std::string> scheduled;
  for (int i = 0; i < kMessages; ++i) scheduled.insert(MustSchedule("t", Millis(20)).id());
  std::set<std::string> seen;
  int of_one = 0;
  int of_two = 0;
  while (seen.size() < kMessages) {
    for (const auto& [subscription, count] :
         {std::pair{one.get(), &of_one}, {two.get(), &of_two}}) {
      if (const auto received = subscription->Next(Millis(200))) {
        EXPECT_TRUE(seen.insert(received->delivery.message_id()).second) << "given to both";
        ++*count;
        ASSERT_EQ(subscription->AckAndWait(received->delivery), SettleAnswer::kSettled);
      }
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(seen, scheduled);
  EXPECT_GT(of_one, 0);
  EXPECT_GT(of_two, 0);
}

TEST_P(DeliveryTest, FirstDeliveriesOfAShardAreInOrder) {
  if (GetParam() != 1) GTEST_SKIP() << "the order holds within a shard";
  constexpr int kMessages = 300;
  std::mt19937 random(7);
  std::vector<v1::Message> scheduled;
  const auto due = client::ToProto(absl::Now() + absl::Milliseconds(1'500));
  for (int i = 0; i < kMessages; ++i) {
    v1::ScheduleRequest request = Request("t", Millis(0));
    *request.mutable_deliver_time() =
        client::ToProto(client::FromProto(due) + absl::Milliseconds(random() % 20));
    scheduled.push_back(MustSchedule(request));
    ASSERT_EQ(scheduled.back().state(), v1::Message::STATE_SCHEDULED) << "too slow a machine";
  }
  std::stable_sort(scheduled.begin(), scheduled.end(), [](const auto& a, const auto& b) {
    return ToTime(a.deliver_time()) < ToTime(b.deliver_time());
  });
  const auto subscription = Subscribe({.topic = "t"});
  for (int i = 0; i < kMessages; ++i) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << i;
    ASSERT_EQ(received->delivery.message_id(), scheduled[static_cast<size_t>(i)].id()) << i;
  }
}

TEST_P(DeliveryTest, ALargeBurstToOneSubscriber) {
  constexpr int kMessages = 20'000;
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 5'000; ++i) *batch.add_messages() = Request("t", Millis(300));
  for (int i = 0; i < kMessages; i += 5'000) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ScheduleBatchResponse response;
    const grpc::Status status = messages_->ScheduleBatch(&context, batch, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  const auto subscription = Subscribe({.topic = "t", .messages = 1'000});
  std::set<std::string> seen;
  v1::SubscribeRequest acks;
  while (seen.size() < kMessages) {
    const auto received = subscription->Next();
    ASSERT_TRUE(received.has_value()) << seen.size();
    EXPECT_TRUE(seen.insert(received->delivery.message_id()).second);
    acks.add_settlements()->set_lease_token(received->delivery.lease_token());
    if (acks.settlements_size() == 500 || seen.size() == kMessages) {
      ASSERT_TRUE(subscription->Send(acks));
      acks.Clear();
    }
  }
  EXPECT_TRUE(subscription->StaysQuiet(Millis(50)));
  // A frame holds many deliveries, because a write for each would be slow in a burst.
  EXPECT_LT(subscription->frames(), static_cast<size_t>(kMessages) / 4);
}

TEST_F(DaemonTest, AQuietStreamHasAHeartbeat) {
  StartDaemon({"--heartbeat-ms=100"});
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  EXPECT_TRUE(subscription.WaitHeartbeat(Millis(10'000)));
  EXPECT_TRUE(subscription.WaitHeartbeat(Millis(10'000)));
}

}  // namespace
}  // namespace duetime::test
