// SPDX-License-Identifier: Apache-2.0
//
// Dead letters and their redrive, through a socket.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/support/settlements.h"
#include "tests/unit/rpc/subscription_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

class DeadLettersTest : public SubscriptionFixture {
 protected:
  // Creates a subscription with this limit on attempts.
  void CreateWithAttempts(const std::string& topic, const std::string& name, int attempts) {
    const grpc::Status made =
        Create(topic, name, absl::StrCat("retry { max_attempts: ", attempts, " }"));
    ASSERT_TRUE(made.ok()) << made.error_message();
  }
  std::vector<v1::Message> Letters(const std::string& topic) {
    const auto response = Must(&Messages::List, "topic: '" + topic + "'");
    return {response.messages().begin(), response.messages().end()};
  }
  // Waits until the message has ended, and returns it.
  v1::Message AwaitEnd(const std::string& id) {
    v1::Message message;
    do {
      message = MustGetMessage(id).message();
    } while (!message.has_end_time() && !::testing::Test::HasFailure());
    return message;
  }
  // Sends the dead letters of the topic back, or only those of `filter`, which is in text format.
  v1::Operation Redrive(const std::string& topic, const std::string& filter = "") {
    v1::Operation now =
        Must(&Admin::StartBulk, absl::StrCat("topic: '", topic, "' action: BULK_ACTION_REDRIVE ",
                                             "filter { ", filter, " }"))
            .operation();
    const std::string get = "name: '" + now.name() + "'";
    while (now.state() == v1::Operation::STATE_RUNNING && !::testing::Test::HasFailure()) {
      now = Must(&Admin::GetOperation, get).operation();
    }
    return now;
  }
};

TEST_F(DeadLettersTest, AfterTheLastAttemptAndBack) {
  shards_ = 2;
  Start();
  CreateWithAttempts("t", "s", 2);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 0, "s");
  v1::ScheduleRequest request = NewMessage("t", "hello");
  request.set_key("order-1");
  request.mutable_ttl()->set_seconds(3'600);
  request.set_late_policy(v1::Message::LATE_POLICY_DROP);
  (*request.mutable_labels())["color"] = "red";
  const std::string id = MustSchedule(request);
  subscriber.ReadDeliveries(1);
  subscriber.Nack(subscriber.deliveries[0].lease_token(), "not now");
  subscriber.ReadDeliveries(2);
  EXPECT_EQ(subscriber.deliveries[1].attempt(), 2);
  subscriber.Nack(subscriber.deliveries[1].lease_token(), "not ever");
  subscriber.ReadSettled(2);
  EXPECT_EQ(AwaitEnd(id).state(), v1::Message::STATE_DEAD_LETTERED);

  const std::vector<v1::Message> letters = Letters("t.dlq");
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].key(), "");
  EXPECT_EQ(letters[0].labels().at("color"), "red");
  const v1::DeadLetter& letter = letters[0].dead_letter();
  EXPECT_EQ(letter.topic(), "t");
  EXPECT_EQ(letter.subscription(), "s");
  EXPECT_EQ(letter.message_id(), id);
  EXPECT_EQ(letter.key(), "order-1");
  EXPECT_EQ(letter.attempts(), 2);
  EXPECT_EQ(letter.reason(), v1::DeadLetter::REASON_MAX_ATTEMPTS);
  EXPECT_EQ(letter.reason_text(), "not ever");
  EXPECT_TRUE(letter.has_first_dispatch_time());
  EXPECT_TRUE(letter.has_accept_time());
  EXPECT_EQ(Get("t", "s").counts().dead_lettered(), 1);

  const v1::Operation operation = Redrive("t.dlq");
  EXPECT_EQ(operation.state(), v1::Operation::STATE_DONE);
  EXPECT_EQ(operation.changed(), 1);
  subscriber.ReadDeliveries(3);
  EXPECT_EQ(subscriber.deliveries[2].payload(), "hello");
  EXPECT_EQ(subscriber.deliveries[2].attempt(), 1);
  EXPECT_EQ(subscriber.deliveries[2].labels().at("color"), "red");
  EXPECT_FALSE(subscriber.deliveries[2].has_dead_letter());
  EXPECT_NE(subscriber.deliveries[2].message_id(), id);
  const v1::Message again = MustGetMessage(subscriber.deliveries[2].message_id()).message();
  EXPECT_EQ(again.key(), "order-1");
  EXPECT_EQ(again.ttl().seconds(), 3'600);
  EXPECT_EQ(again.late_policy(), v1::Message::LATE_POLICY_DROP);
  EXPECT_EQ(again.expire_time().seconds(), again.deliver_time().seconds() + 3'600);
  const auto by_key = Must(&Messages::Get, "key { topic: 't' key: 'order-1' }");
  EXPECT_EQ(by_key.message().id(), again.id());
  EXPECT_TRUE(Letters("t.dlq").empty());
}

// The shards know no dead-letter topic yet, and ask for it while the stream ends.
TEST_F(DeadLettersTest, TheLastSettlementOfAStreamMayBeADeadLetter) {
  Start();
  for (int i = 0; i < 20; ++i) {
    const std::string topic = absl::StrCat("t", i);
    TestSubscriber subscriber(messages_.get());
    subscriber.Start(topic);
    MustSchedule(NewMessage(topic, "x"));
    subscriber.ReadDeliveries(1);
    subscriber.DeadLetter(subscriber.deliveries[0].lease_token(), "bad");
    subscriber.HalfClose();
    EXPECT_TRUE(subscriber.Finish().ok());
    EXPECT_EQ(subscriber.settled.size(), 1u) << topic;
    EXPECT_TRUE(subscriber.refused.empty()) << topic;
  }
}

// The catalog creates the subscription meanwhile.
TEST_F(DeadLettersTest, TheFirstRequestOfAStreamMayHaveADeadLetter) {
  Start();
  TestSubscriber first(messages_.get());
  first.Start("t");
  MustSchedule(NewMessage("t", "x"));
  first.ReadDeliveries(1);
  TestSubscriber second(messages_.get());
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic("u");
  test::AddSettlement(first.deliveries[0].lease_token(), &request)->mutable_dead_letter();
  ASSERT_TRUE(second.Send(request));
  second.ReadSettled(1);
  EXPECT_EQ(node_->shard_stats()[0].dead_letters_refused, 0u);
  EXPECT_EQ(node_->shard_stats()[0].settle_refused, 0u);
}

TEST_F(DeadLettersTest, OneOfThemGoesBackByItsId) {
  shards_ = 2;
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  constexpr size_t kLetters = 4;
  for (size_t i = 0; i < kLetters; ++i) MustSchedule(NewMessage("t", "x"));
  subscriber.ReadDeliveries(kLetters);
  for (const v1::Delivery& one : subscriber.deliveries)
    subscriber.DeadLetter(one.lease_token(), "");
  subscriber.ReadSettled(kLetters);
  const std::vector<v1::Message> letters = Letters("t.dlq");
  ASSERT_EQ(letters.size(), kLetters);
  const std::string filter = "message_id: '" + letters[2].id() + "'";
  const v1::Operation counted =
      Must(&Admin::StartBulk,
           "topic: 't.dlq' action: BULK_ACTION_REDRIVE dry_run: true filter { " + filter + " }")
          .operation();
  const v1::Operation done = Redrive("t.dlq", filter);
  for (const v1::Operation& operation : {counted, done}) {
    EXPECT_EQ(operation.matched(), 1);
    EXPECT_EQ(operation.filter().message_id(), letters[2].id());
  }
  ASSERT_EQ(counted.sample_size(), 1);
  EXPECT_EQ(counted.sample(0).id(), letters[2].id());
  EXPECT_EQ(done.changed(), 1);
  EXPECT_EQ(MustGetMessage(letters[2].id()).message().state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(Letters("t.dlq").size(), kLetters - 1);
}

TEST_F(DeadLettersTest, WhenASubscriberSaysSo) {
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  const std::string id = MustSchedule(NewMessage("t", "poison"));
  subscriber.ReadDeliveries(1);
  const std::string token = subscriber.deliveries[0].lease_token();
  subscriber.DeadLetter(token, std::string(256, 'r'));
  subscriber.ReadRefused(1);
  EXPECT_EQ(subscriber.refused.at(token), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  subscriber.DeadLetter(token, "cannot be read");
  subscriber.ReadSettled(1);
  EXPECT_EQ(AwaitEnd(id).state(), v1::Message::STATE_DEAD_LETTERED);
  // A dead letter is delivered like any other message.
  TestSubscriber letters(messages_.get());
  letters.Start("t.dlq");
  letters.ReadDeliveries(1);
  EXPECT_EQ(letters.deliveries[0].payload(), "poison");
  const v1::DeadLetter& letter = letters.deliveries[0].dead_letter();
  EXPECT_EQ(letter.reason(), v1::DeadLetter::REASON_REJECTED);
  EXPECT_EQ(letter.reason_text(), "cannot be read");
  EXPECT_EQ(letter.subscription(), "default");
  subscriber.DeadLetter(token, "again");
  subscriber.refused.clear();
  subscriber.ReadRefused(1);
  EXPECT_EQ(subscriber.refused.at(token), v1::SettleRefusal::REASON_LEASE_LOST);
}

TEST_F(DeadLettersTest, OfMessagesThatAreTooLate) {
  Start();
  v1::ScheduleRequest request = NewMessage("t", "late");
  request.set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
  request.mutable_ttl()->set_nanos(1'000'000);
  request.mutable_deliver_time()->set_seconds(1'000'000'000);
  const std::string id = MustSchedule(request);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  TestSubscriber letters(messages_.get());
  letters.Start("t.dlq");
  letters.ReadDeliveries(1);
  EXPECT_EQ(letters.deliveries[0].dead_letter().reason(), v1::DeadLetter::REASON_EXPIRED);
  EXPECT_EQ(letters.deliveries[0].dead_letter().message_id(), id);
  EXPECT_EQ(AwaitEnd(id).state(), v1::Message::STATE_DEAD_LETTERED);
}

// By the redrive, the number of the letter's topic belongs to another one.
TEST_F(DeadLettersTest, GoBackToTheNameOfTheirTopicAndNeverToItsNumber) {
  Start();
  CreateWithAttempts("t", "s", 1);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 0, "s");
  v1::ScheduleRequest request = NewMessage("t", "poison");
  request.set_key("order-1");
  MustSchedule(request);
  subscriber.ReadDeliveries(1);
  subscriber.Nack(subscriber.deliveries[0].lease_token());
  subscriber.ReadSettled(1);
  ASSERT_EQ(Letters("t.dlq").size(), 1u);

  const storage::TopicId number = node_->snapshots().Read().FindTopic("t")->id;
  ASSERT_TRUE(DeleteTopic("t").ok());
  clock_.Pass(49 * 3'600'000);
  ASSERT_TRUE(CreateTopic("other").ok());
  ASSERT_EQ(node_->snapshots().Read().FindTopic("other")->id, number);
  const v1::Operation operation = Redrive("t.dlq");
  EXPECT_EQ(operation.changed(), 0);
  EXPECT_EQ(operation.unchanged(), 1);
  EXPECT_EQ(Letters("t.dlq").size(), 1u);
  EXPECT_TRUE(Letters("other").empty());

  ASSERT_TRUE(CreateTopic("t").ok());
  EXPECT_EQ(Redrive("t.dlq").changed(), 1);
  EXPECT_TRUE(Letters("t.dlq").empty());
  EXPECT_TRUE(Letters("other").empty());
}

// A deleted topic whose name has not been taken lives again with what is redriven to it.
TEST_F(DeadLettersTest, ReviveTheirTopicWhileItsNameIsThere) {
  Start();
  CreateWithAttempts("t", "s", 1);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 0, "s");
  MustSchedule(NewMessage("t", "poison"));
  subscriber.ReadDeliveries(1);
  subscriber.Nack(subscriber.deliveries[0].lease_token());
  subscriber.ReadSettled(1);
  ASSERT_TRUE(DeleteTopic("t").ok());
  clock_.Pass(49 * 3'600'000);
  EXPECT_EQ(Redrive("t.dlq").changed(), 1);
  ASSERT_TRUE(CreateTopic("other").ok());
  TestSubscriber again(messages_.get());
  again.Start("t");
  again.ReadDeliveries(1);
  EXPECT_EQ(again.deliveries[0].payload(), "poison");
  EXPECT_TRUE(Letters("other").empty());
}

TEST_F(DeadLettersTest, HaveNoTopicWhereItsNameWouldBeTooLong) {
  Start();
  const std::string topic(255, 't');
  v1::ScheduleRequest request = NewMessage(topic, "x");
  TestSubscriber subscriber(messages_.get());
  subscriber.Start(topic);
  MustSchedule(request);
  subscriber.ReadDeliveries(1);
  const std::string token = subscriber.deliveries[0].lease_token();
  subscriber.DeadLetter(token, "");
  subscriber.ReadRefused(1);
  EXPECT_EQ(subscriber.refused.at(token), v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC);
  request.set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
  request.mutable_ttl()->set_seconds(1);
  ExpectRefused(Call(&Messages::Schedule, request), grpc::StatusCode::FAILED_PRECONDITION,
                "NO_DEAD_LETTER_TOPIC", {});
  // The rejection is refused, and the lease goes on.
  subscriber.Ack(token);
  subscriber.ReadSettled(1);
}

}  // namespace
}  // namespace duetime::rpc
