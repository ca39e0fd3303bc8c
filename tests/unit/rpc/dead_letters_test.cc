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
  void CreateWithAttempts(const std::string& topic, const std::string& name, int attempts,
                          const std::string& dead_letter_topic = "") {
    v1::CreateSubscriptionRequest request = Wish(topic, name);
    v1::SubscriptionSettings* settings = request.mutable_subscription()->mutable_settings();
    settings->mutable_retry()->set_max_attempts(attempts);
    settings->set_dead_letter_topic(dead_letter_topic);
    const grpc::Status made = Create(request);
    ASSERT_TRUE(made.ok()) << made.error_message();
  }
  std::vector<v1::Message> Letters(const std::string& topic) {
    v1::ListRequest request;
    request.set_topic(topic);
    v1::ListResponse response;
    const grpc::Status status = messages_->List(NewContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
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
  static v1::StartBulkRequest Redrive(const std::string& topic, const std::string& id = "") {
    v1::StartBulkRequest request;
    request.set_topic(topic);
    request.set_action(v1::BULK_ACTION_REDRIVE);
    if (!id.empty()) request.mutable_filter()->set_message_id(id);
    return request;
  }
  v1::Operation AwaitOperation(const v1::StartBulkRequest& request) {
    v1::StartBulkResponse response;
    const grpc::Status started = admin_->StartBulk(NewContext().get(), request, &response);
    EXPECT_TRUE(started.ok()) << started.error_message();
    v1::GetOperationRequest get;
    get.set_name(response.operation().name());
    v1::GetOperationResponse now;
    *now.mutable_operation() = response.operation();
    while (now.operation().state() == v1::Operation::STATE_RUNNING &&
           !::testing::Test::HasFailure()) {
      EXPECT_TRUE(admin_->GetOperation(NewContext().get(), get, &now).ok());
    }
    return now.operation();
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
  v1::Subscription found;
  ASSERT_TRUE(Get("t", "s", &found).ok());
  EXPECT_EQ(found.counts().dead_lettered(), 1);

  const v1::Operation operation = AwaitOperation(Redrive("t.dlq"));
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
  v1::GetRequest by_key;
  by_key.mutable_key()->set_topic("t");
  by_key.mutable_key()->set_key("order-1");
  v1::GetResponse found_by_key;
  ASSERT_TRUE(messages_->Get(NewContext().get(), by_key, &found_by_key).ok());
  EXPECT_EQ(found_by_key.message().id(), again.id());
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

// Letters that are made in one step have the same time.
TEST_F(DeadLettersTest, OneOfThemGoesBackByItsId) {
  shards_ = 2;
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  constexpr int kLetters = 6;
  for (int i = 0; i < kLetters; ++i) MustSchedule(NewMessage("t", "x"));
  subscriber.ReadDeliveries(kLetters);
  v1::SubscribeRequest give_up;
  for (const v1::Delivery& delivery : subscriber.deliveries) {
    test::AddSettlement(delivery.lease_token(), &give_up)->mutable_dead_letter();
  }
  ASSERT_TRUE(subscriber.Send(give_up));
  subscriber.ReadSettled(kLetters);
  std::vector<v1::Message> letters = Letters("t.dlq");
  ASSERT_EQ(letters.size(), static_cast<size_t>(kLetters));
  const std::string id = letters[3].id();

  v1::StartBulkRequest request = Redrive("t.dlq", id);
  request.set_dry_run(true);
  v1::StartBulkResponse counted;
  ASSERT_TRUE(admin_->StartBulk(NewContext().get(), request, &counted).ok());
  EXPECT_EQ(counted.operation().matched(), 1);
  EXPECT_EQ(counted.operation().filter().message_id(), id);
  ASSERT_EQ(counted.operation().sample_size(), 1);
  EXPECT_EQ(counted.operation().sample(0).id(), id);

  request.set_dry_run(false);
  request.set_name("back");
  const v1::Operation done = AwaitOperation(request);
  EXPECT_EQ(done.matched(), 1);
  EXPECT_EQ(done.changed(), 1);
  EXPECT_EQ(done.filter().message_id(), id);
  EXPECT_EQ(MustGetMessage(id).message().state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(Letters("t.dlq").size(), static_cast<size_t>(kLetters - 1));

  v1::StartBulkResponse again;
  EXPECT_TRUE(admin_->StartBulk(NewContext().get(), request, &again).ok()) << "a repeat";
  request.mutable_filter()->set_message_id(letters[4].id());
  EXPECT_EQ(ReasonOf(admin_->StartBulk(NewContext().get(), request, &again)), "OPERATION_EXISTS");
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

TEST_F(DeadLettersTest, GoWhereTheSettingsSay) {
  Start();
  CreateWithAttempts("t", "own", 1, "lost/own");
  CreateWithAttempts("t", "topics", 1);
  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("t");
  update.mutable_topic()->mutable_settings()->set_dead_letter_topic("lost/topic");
  update.mutable_update_mask()->add_paths("settings.dead_letter_topic");
  v1::UpdateTopicResponse updated;
  ASSERT_TRUE(admin_->UpdateTopic(NewContext().get(), update, &updated).ok());
  TestSubscriber own(messages_.get());
  TestSubscriber topics(messages_.get());
  own.Start("t", 0, "own");
  topics.Start("t", 0, "topics");
  MustSchedule(NewMessage("t", "x"));
  own.ReadDeliveries(1);
  topics.ReadDeliveries(1);
  own.Nack(own.deliveries[0].lease_token());
  own.ReadSettled(1);
  topics.Nack(topics.deliveries[0].lease_token());
  topics.ReadSettled(1);
  TestSubscriber from_own(messages_.get());
  TestSubscriber from_topic(messages_.get());
  from_own.Start("lost/own");
  from_topic.Start("lost/topic");
  from_own.ReadDeliveries(1);
  from_topic.ReadDeliveries(1);
  EXPECT_EQ(from_own.deliveries[0].dead_letter().subscription(), "own");
  EXPECT_EQ(from_topic.deliveries[0].dead_letter().subscription(), "topics");
}

TEST_F(DeadLettersTest, OfMessagesThatAreTooLate) {
  Start();
  v1::ScheduleRequest request = NewMessage("t", "late");
  request.set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
  v1::ScheduleResponse response;
  EXPECT_EQ(ReasonOf(Schedule(request, &response)), "INVALID_LATE_POLICY");
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
  v1::Operation operation = AwaitOperation(Redrive("t.dlq"));
  EXPECT_EQ(operation.changed(), 0);
  EXPECT_EQ(operation.unchanged(), 1);
  EXPECT_EQ(Letters("t.dlq").size(), 1u);
  EXPECT_TRUE(Letters("other").empty());

  ASSERT_TRUE(CreateTopic("t").ok());
  EXPECT_EQ(AwaitOperation(Redrive("t.dlq")).changed(), 1);
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
  EXPECT_EQ(AwaitOperation(Redrive("t.dlq")).changed(), 1);
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
  v1::ScheduleResponse response;
  const grpc::Status late = Schedule(request, &response);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(late), "NO_DEAD_LETTER_TOPIC");
  // The rejection is refused, and the lease goes on.
  subscriber.Ack(token);
  subscriber.ReadSettled(1);
}

}  // namespace
}  // namespace duetime::rpc
