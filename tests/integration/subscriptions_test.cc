// SPDX-License-Identifier: Apache-2.0
//
// The promises of subscriptions over the wire, against the built daemon: the order of an ordering
// key, the retention by number, the ramp after a restart, slowed subscriptions, dead letters whose
// topic was deleted.
#include <gmock/gmock.h>

#include "tests/integration/lifecycle_calls.h"

namespace duetime::test {
namespace {

class SubscriptionsTest : public LifecycleCallsTest {
 protected:
  // Each test starts its own daemon.
  void SetUp() override {}

  v1::Message PutOrdered(const std::string& ordering_key, const std::string& payload) {
    ScheduleRequest request = Request("t", Millis(0), payload);
    request.set_ordering_key(ordering_key);
    return MustSchedule(request);
  }

  // Schedules messages that are all due at once.
  void ScheduleMany(const std::string& topic, int count) {
    v1::ScheduleBatchRequest batch;
    for (int i = 0; i < count; ++i) *batch.add_messages() = Request(topic, Millis(0));
    v1::ScheduleBatchResponse accepted;
    MustCall(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &accepted);
  }

  // Polls the number of the topic's pending messages until it is `wanted` or `patience` is over.
  // Returns the last number.
  int64_t PendingWhen(const std::string& topic, int64_t wanted, Millis patience = Millis(10'000)) {
    v1::GetTopicRequest request;
    request.set_name(topic);
    v1::GetTopicResponse response;
    const auto deadline = Clock::now() + patience;
    do {
      MustCall(admin_, &v1::Admin::Stub::GetTopic, request, &response);
    } while (response.topic().counts().pending() > wanted && Clock::now() < deadline);
    return response.topic().counts().pending();
  }

  v1::Subscription GetSubscription(const std::string& topic) {
    v1::GetSubscriptionRequest request;
    request.set_topic(topic);
    v1::GetSubscriptionResponse response;
    MustCall(admin_, &v1::Admin::Stub::GetSubscription, request, &response);
    return response.subscription();
  }
};

std::string Next(Subscription* subscription, Received* received) {
  const auto next = subscription->Next();
  if (!next.has_value()) return "(nothing)";
  *received = *next;
  return received->delivery.payload();
}

TEST_F(SubscriptionsTest, OfAnOrderingKeyOneIsInFlightAndOneThatFailedHoldsTheOthersBack) {
  StartDaemon({"--shards=2"});
  for (const char* payload : {"1", "2", "3"}) PutOrdered("k", payload);
  Subscription subscription(channel_, Subscription::Start{.topic = "t", .messages = 100});
  ASSERT_TRUE(subscription.WaitStarted());
  Received received;
  ASSERT_EQ(Next(&subscription, &received), "1");
  // There is credit for all three, but the later ones of the key must wait. Other messages pass.
  EXPECT_TRUE(subscription.StaysQuiet(Millis(200)));
  Received other;
  PutOrdered("another", "other");
  ASSERT_EQ(Next(&subscription, &other), "other");
  EXPECT_EQ(subscription.AckAndWait(other.delivery), SettleAnswer::kSettled);
  EXPECT_EQ(GetSubscription("t").counts().blocked(), 2);

  ASSERT_TRUE(subscription.Nack(received.delivery, Millis(300)));
  ASSERT_EQ(Next(&subscription, &received), "1");
  EXPECT_EQ(received.delivery.attempt(), 2);
  EXPECT_EQ(subscription.AckAndWait(received.delivery), SettleAnswer::kSettled);
  for (const char* payload : {"2", "3"}) {
    ASSERT_EQ(Next(&subscription, &received), payload);
    EXPECT_EQ(subscription.waiting(), 0u);
    EXPECT_EQ(subscription.AckAndWait(received.delivery), SettleAnswer::kSettled);
  }
}

// A subscriber that disconnects and reconnects does not change the order.
TEST_F(SubscriptionsTest, AnOrderingKeyKeepsItsOrderWhenTheStreamBreaks) {
  StartDaemon({"--shards=2"});
  for (const char* payload : {"1", "2"}) PutOrdered("k", payload);
  Received received;
  {
    Subscription broken(channel_, Subscription::Start{.topic = "t", .messages = 100});
    ASSERT_EQ(Next(&broken, &received), "1");
  }
  Subscription subscription(channel_, Subscription::Start{.topic = "t", .messages = 100});
  ASSERT_EQ(Next(&subscription, &received), "1");
  EXPECT_TRUE(received.delivery.maybe_redelivered());
  EXPECT_TRUE(subscription.StaysQuiet(Millis(100)));
  EXPECT_EQ(subscription.AckAndWait(received.delivery), SettleAnswer::kSettled);
  EXPECT_EQ(Next(&subscription, &received), "2");
}

// The subscription drops its oldest messages, on disk and in memory, and knows their number after a
// crash.
TEST_F(SubscriptionsTest, ABoundedOneKeepsTheNewest) {
  constexpr int kBound = 100;
  constexpr int kRound = 1'000;
  StartDaemon({"--shards=2", "--due-idle-max=10", "--low-watermark-period-ms=10"});
  v1::CreateSubscriptionRequest create;
  create.mutable_subscription()->set_topic("t");
  create.mutable_subscription()->mutable_settings()->set_retention_max_messages(kBound);
  v1::CreateSubscriptionResponse created;
  MustCall(admin_, &v1::Admin::Stub::CreateSubscription, create, &created);
  for (int round = 0; round < 2; ++round) {
    // Small batches, because all messages of one batch may go to one shard.
    for (int i = 0; i < kRound; i += 20) {
      v1::ScheduleBatchRequest batch;
      for (int j = i; j < i + 20; ++j) {
        *batch.add_messages() = Request("t", Millis(0), std::to_string(round * kRound + j));
      }
      v1::ScheduleBatchResponse accepted;
      MustCall(messages_, &v1::Messages::Stub::ScheduleBatch, batch, &accepted);
    }
    EXPECT_EQ(PendingWhen("t", kBound), kBound);
    Restart();
    EXPECT_EQ(PendingWhen("t", 0, Millis(300)), kBound);
  }
  // Each shard keeps half of the bound.
  const std::multiset<std::string> left = ReceiveAll("t");
  EXPECT_EQ(left.size(), static_cast<size_t>(kBound));
  for (const std::string& payload : left) {
    EXPECT_GE(std::stoi(payload), 2 * kRound - 5 * kBound) << payload;
  }
}

TEST_F(SubscriptionsTest, AfterARestartDeliveriesRampUp) {
  constexpr int kRate = 200;
  constexpr int kMessages = 1'000;
  StartDaemon({"--shards=1", "--startup-rate=" + std::to_string(kRate)});
  ScheduleMany("t", kMessages);
  server_->Kill();
  // The ramp begins after this moment.
  const Clock::time_point begun = Clock::now();
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  Subscription subscription(channel_, Subscription::Start{.topic = "t", .messages = kMessages});
  ASSERT_TRUE(subscription.WaitStarted());
  for (int i = 1; i <= kMessages; ++i) {
    const auto received = subscription.Next();
    ASSERT_TRUE(received.has_value()) << i;
    // The ramp grants kRate messages in the first second, twice as many in the second, and so on,
    // plus a bucket of 100 ms at the last rate.
    const double seconds = std::chrono::duration<double>(received->time - begun).count();
    double allowed = 0;
    double rate = kRate;
    for (double left = seconds; left > 0; left -= 1) {
      allowed += rate * std::min(left, 1.0);
      rate *= 2;
    }
    ASSERT_LE(i, allowed + rate / 2 * 0.1 + 1) << "after " << seconds << " s";
  }
}

// P5: a failing subscription is slowed, however fast it fails.
TEST_F(SubscriptionsTest, ASubscriptionThatFailsIsSlowedAndItsNeighbourIsNot) {
  constexpr int kRate = 100;
  constexpr int kMessages = 1'000;
  constexpr int kCredit = 50;
  StartDaemon({"--shards=1", "--failure-rate=" + std::to_string(kRate)});
  ScheduleMany("t", kMessages);
  ScheduleMany("neighbour", kMessages);
  const Clock::time_point begun = Clock::now();
  Subscription failing(channel_, Subscription::Start{.topic = "t", .messages = kCredit});
  ASSERT_TRUE(failing.WaitStarted());
  int failed = 0;
  while (Clock::now() < begun + Millis(1'500)) {
    const auto received = failing.Next(Millis(50));
    if (!received.has_value()) continue;
    ASSERT_TRUE(failing.Nack(received->delivery, Millis(0)));
    ++failed;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  EXPECT_GE(failed, kRate);
  // One second's worth of failures, the credit that was in flight by then, and the rate.
  EXPECT_LE(failed, kRate + kCredit + kRate * seconds + 2);
  EXPECT_TRUE(GetSubscription("t").counts().slowed());
  EXPECT_EQ(ReceiveAll("neighbour").size(), static_cast<size_t>(kMessages));
  EXPECT_FALSE(GetSubscription("neighbour").counts().slowed());

  for (int i = 0; i < kMessages; ++i) {
    const auto received = failing.Next();
    ASSERT_TRUE(received.has_value()) << i;
    ASSERT_EQ(failing.AckAndWait(received->delivery), SettleAnswer::kSettled);
  }
  EXPECT_FALSE(GetSubscription("t").counts().slowed());
}

TEST_F(SubscriptionsTest, ADeadLetterGoesBackToATopicThatWasDeleted) {
  StartDaemon({"--shards=2"});
  v1::CreateSubscriptionRequest create;
  create.mutable_subscription()->set_topic("t");
  create.mutable_subscription()->mutable_settings()->mutable_retry()->set_max_attempts(1);
  v1::CreateSubscriptionResponse created;
  MustCall(admin_, &v1::Admin::Stub::CreateSubscription, create, &created);
  const v1::Message message = MustSchedule("t", Millis(0), "poison");
  {
    Subscription subscription(channel_, Subscription::Start{.topic = "t"});
    Received received;
    ASSERT_EQ(Next(&subscription, &received), "poison");
    ASSERT_TRUE(subscription.Nack(received.delivery, Millis(0)));
    EXPECT_EQ(subscription.Answer(received.delivery.lease_token()), SettleAnswer::kSettled);
  }
  v1::DeleteTopicRequest remove;
  remove.set_name("t");
  v1::DeleteTopicResponse removed;
  MustCall(admin_, &v1::Admin::Stub::DeleteTopic, remove, &removed);
  EXPECT_EQ(removed.operation(), "");
  v1::GetTopicRequest topic;
  topic.set_name("t");
  v1::GetTopicResponse found;
  EXPECT_EQ(InfoOf(Call(admin_, &v1::Admin::Stub::GetTopic, topic, &found)).reason,
            "TOPIC_NOT_FOUND");

  v1::ListRequest list;
  list.set_topic("t.dlq");
  v1::ListResponse listed;
  MustCall(messages_, &v1::Messages::Stub::List, list, &listed);
  ASSERT_EQ(listed.messages_size(), 1);
  const std::string letter = listed.messages(0).id();
  v1::StartBulkRequest redrive;
  redrive.set_topic("t.dlq");
  redrive.set_action(v1::BULK_ACTION_REDRIVE);
  redrive.set_name("back");
  MustStart(redrive);
  const v1::Operation done = WaitOperation("back");
  EXPECT_EQ(done.state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(done.matched(), 1);
  EXPECT_EQ(done.changed(), 1);
  // The redrive creates the topic again with default settings, so a nack leads to a retry.
  MustCall(admin_, &v1::Admin::Stub::GetTopic, topic, &found);
  EXPECT_EQ(found.topic().counts().pending(), 1);
  Restart();
  Subscription again(channel_, Subscription::Start{.topic = "t"});
  Received received;
  ASSERT_EQ(Next(&again, &received), "poison");
  EXPECT_NE(received.delivery.message_id(), message.id());
  ASSERT_TRUE(again.Nack(received.delivery, Millis(0)));
  ASSERT_EQ(Next(&again, &received), "poison");
  EXPECT_EQ(received.delivery.attempt(), 2);
  EXPECT_EQ(again.AckAndWait(received.delivery), SettleAnswer::kSettled);
  Subscription letters(channel_, Subscription::Start{.topic = "t.dlq"});
  EXPECT_TRUE(letters.StaysQuiet(Millis(200)));
  v1::GetRequest get;
  get.set_message_id(letter);
  v1::GetResponse got;
  MustCall(messages_, &v1::Messages::Stub::Get, get, &got);
  EXPECT_EQ(got.message().state(), v1::Message::STATE_CANCELLED);
}

}  // namespace
}  // namespace duetime::test
