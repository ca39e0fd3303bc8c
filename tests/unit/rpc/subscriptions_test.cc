// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions that are created by a call or by use, through a socket. fanout.txt has what they do
// with messages, and catalog_test their changes.
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/rpc/subscription_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

using grpc::StatusCode;
using Names = std::vector<std::string>;
using Payloads = std::multiset<std::string>;

class SubscriptionsTest : public SubscriptionFixture {
 protected:
  // The reason for which a stream that names this subscription ends.
  std::string RefusalOfStream(const std::string& topic, const std::string& name) {
    TestSubscriber subscriber(messages_.get());
    v1::SubscribeRequest request;
    request.mutable_start()->set_topic(topic);
    request.mutable_start()->set_subscription(name);
    subscriber.Send(request);
    return ReasonOf(subscriber.Finish());
  }
};

TEST_F(SubscriptionsTest, AreMadeReadChangedListedAndDeleted) {
  shards_ = 2;
  Start();
  const std::string wish = Named("t", "b", "lease_duration { seconds: 7 }");
  const v1::Subscription made = Must(&Admin::CreateSubscription, wish).subscription();
  EXPECT_EQ(made.topic(), "t");
  EXPECT_EQ(made.settings().lease_duration().seconds(), 7);
  EXPECT_GT(made.create_time().seconds(), 0);
  Must(&Admin::CreateSubscription, wish);  // an equal request
  ASSERT_TRUE(Create("t", "").ok());
  ASSERT_TRUE(Create("t", "a").ok());
  EXPECT_EQ(List("t"), (Names{"a", "b", "default"}));
  EXPECT_EQ(List("t", 1), (Names{"a", "b", "default"}));

  const auto updated =
      Must(&Admin::UpdateSubscription, Named("t", "b", "retry { max_attempts: 3 }") +
                                           "update_mask { paths: 'settings.retry.max_attempts' }");
  for (const v1::Subscription& found : {updated.subscription(), Get("t", "b")}) {
    EXPECT_EQ(found.settings().retry().max_attempts(), 3);
    EXPECT_EQ(found.settings().lease_duration().seconds(), 7);
    EXPECT_EQ(found.counts().streams(), 0);
  }
  ASSERT_TRUE(Delete("t", "b").ok());
  EXPECT_EQ(List("t"), (Names{"a", "default"}));
}

TEST_F(SubscriptionsTest, ARefusalNamesTheSubscription) {
  node_options_.catalog.auto_create = false;
  node_options_.catalog.subscriptions_max = 1;
  Start();
  EXPECT_EQ(Reason(&Admin::GetSubscription, "topic: 't' name: 's'"), "TOPIC_NOT_FOUND");
  ASSERT_TRUE(CreateTopic("t").ok());
  EXPECT_EQ(RefusalOfStream("t", "s"), "SUBSCRIPTION_NOT_FOUND");
  for (const grpc::Status& status :
       {Call(&Admin::GetSubscription, "topic: 't' name: 's'"), Delete("t", "s"),
        Call(&Admin::UpdateSubscription, Named("t", "s") + "update_mask { paths: 'settings' }")}) {
    ExpectRefused(status, StatusCode::NOT_FOUND, "SUBSCRIPTION_NOT_FOUND",
                  {{"topic", "t"}, {"subscription", "s"}});
  }
  ASSERT_TRUE(Create("t", "s").ok());
  ExpectRefused(Create("t", "s", "paused: true"), StatusCode::ALREADY_EXISTS, "SUBSCRIPTION_EXISTS",
                {{"topic", "t"}, {"subscription", "s"}});
  ExpectRefused(Create("t", "u"), StatusCode::RESOURCE_EXHAUSTED, "SUBSCRIPTION_LIMIT",
                {{"limit", "1"}});
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 0, "s");
}

TEST_F(SubscriptionsTest, EachGetsEveryMessageAndItsSubscribersShareThem) {
  shards_ = 2;
  Start();
  ASSERT_TRUE(Create("t", "a").ok());
  ASSERT_TRUE(Create("t", "b").ok());
  TestSubscriber a1(messages_.get());
  TestSubscriber a2(messages_.get());
  TestSubscriber b(messages_.get());
  // Each subscriber of "a" has credit for one message, so each gets one of the two.
  a1.Start("t", 1, "a");
  a2.Start("t", 1, "a");
  b.Start("t", 0, "b");
  const std::string id = MustSchedule(NewMessage("t", "1"));
  MustSchedule(NewMessage("t", "2"));
  a1.ReadDeliveries(1);
  a2.ReadDeliveries(1);
  b.ReadDeliveries(2);
  EXPECT_EQ(b.payloads(), (Payloads{"1", "2"}));
  Payloads both = a1.payloads();
  both.merge(a2.payloads());
  EXPECT_EQ(both, (Payloads{"1", "2"}));

  // One subscription has settled the messages. They are still pending for the other.
  b.Ack(b.deliveries[0].lease_token());
  b.Ack(b.deliveries[1].lease_token());
  b.ReadSettled(2);
  const v1::GetResponse got = MustGetMessage(id);
  EXPECT_EQ(got.message().state(), v1::Message::STATE_IN_FLIGHT);
  ASSERT_EQ(got.subscriptions_size(), 2);
  EXPECT_EQ(got.subscriptions(0).subscription(), "a");
  EXPECT_EQ(got.subscriptions(0).state(), v1::Message::STATE_IN_FLIGHT);
  EXPECT_EQ(got.subscriptions(0).attempts(), 1);
  EXPECT_EQ(got.subscriptions(1).subscription(), "b");
  EXPECT_EQ(got.subscriptions(1).state(), v1::Message::STATE_ACKED);
  const v1::SubscriptionCounts of_a = Get("t", "a").counts();
  EXPECT_EQ(of_a.in_flight(), 2);
  EXPECT_EQ(of_a.streams(), 2);
  EXPECT_EQ(Get("t", "a").backlog().messages(), 2);
  EXPECT_EQ(Get("t", "b").backlog().messages(), 0);
  const v1::SubscriptionCounts of_b = Get("t", "b").counts();
  EXPECT_EQ(of_b.acked(), 2);
  EXPECT_EQ(of_b.in_flight(), 0);
}

TEST_F(SubscriptionsTest, StartWithAllMessagesOrWithNewOnes) {
  Start();
  ASSERT_TRUE(Create("t", "first").ok());
  MustSchedule(NewMessage("t", "before"));
  Must(&Admin::CreateSubscription, Named("t", "all") + "start: START_ALL");
  Must(&Admin::CreateSubscription, Named("t", "new") + "start: START_NEW");
  MustSchedule(NewMessage("t", "after"));
  TestSubscriber all(messages_.get());
  all.Start("t", 0, "all");
  all.ReadDeliveries(2);
  EXPECT_EQ(all.payloads(), (Payloads{"before", "after"}));
  TestSubscriber fresh(messages_.get());
  fresh.Start("t", 0, "new");
  fresh.ReadDeliveries(1);
  EXPECT_EQ(fresh.payloads(), (Payloads{"after"}));
  // This subscription exists by use.
  TestSubscriber used(messages_.get());
  used.Start("t", 0, "used");
  MustSchedule(NewMessage("t", "last"));
  used.ReadDeliveries(1);
  EXPECT_EQ(used.payloads(), (Payloads{"last"}));
}

// A subscription with the name of a deleted one is a new subscription, even if it gets the same
// number.
TEST_F(SubscriptionsTest, AStreamIsNotTakenOver) {
  Start();
  ASSERT_TRUE(Create("t", "s").ok());
  TestSubscriber before(messages_.get());
  before.Start("t", 0, "s");
  ASSERT_TRUE(Delete("t", "s").ok());
  ASSERT_TRUE(Create("t", "s").ok());
  MustSchedule(NewMessage("t", "x"));
  TestSubscriber after(messages_.get());
  after.Start("t", 0, "s");
  after.ReadDeliveries(1);
  EXPECT_EQ(after.deliveries[0].attempt(), 1);
  EXPECT_EQ(ReasonOf(before.Finish()), "SUBSCRIPTION_NOT_FOUND");
  EXPECT_TRUE(before.deliveries.empty());
}

TEST_F(SubscriptionsTest, TheOldestMayWaitOnDisk) {
  node_options_.limits.due_max = 1;
  shards_ = 2;
  Start();
  ASSERT_TRUE(Create("t", "s").ok());
  v1::ScheduleBatchRequest batch;
  for (int64_t i = 0; i < 20; ++i) {
    v1::ScheduleRequest* message = batch.add_messages();
    message->set_topic("t");
    message->mutable_deliver_time()->set_seconds(1'000'000'000 + i);
  }
  Must(&Messages::ScheduleBatch, batch);
  v1::Subscription found;
  do {
    found = Get("t", "s");
  } while (!found.counts().behind() && !HasFailure());
  EXPECT_EQ(found.backlog().messages(), 20);
  EXPECT_TRUE(found.backlog().has_oldest_due_time());
}

// All streams name the same new subscription at once. It is created once, and every stream opens.
TEST_F(SubscriptionsTest, ManyStreamsAtOnce) {
  shards_ = 2;
  api::ServerOptions options = DefaultOptions();
  options.io_threads = 2;
  Start(options);
  constexpr size_t kStreams = 1'000;
  std::vector<std::unique_ptr<TestSubscriber>> streams;
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic("t");
  request.mutable_start()->set_subscription("s");
  std::vector<std::unique_ptr<v1::Messages::Stub>> stubs;
  for (int i = 0; i < 4; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stubs.push_back(v1::Messages::NewStub(grpc::CreateCustomChannel(
        server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments)));
  }
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<TestSubscriber>(stubs[i % stubs.size()].get()));
    ASSERT_TRUE(streams.back()->Send(request));
  }
  for (const auto& stream : streams) {
    ASSERT_TRUE(stream->ReadOne());
    ASSERT_TRUE(stream->last().has_started());
  }
  EXPECT_EQ(server_->streams(), kStreams);
  EXPECT_EQ(List("t"), (Names{"s"}));
  v1::ScheduleBatchRequest batch;
  for (size_t i = 0; i < kStreams; ++i) *batch.add_messages() = NewMessage("t", "x");
  Must(&Messages::ScheduleBatch, batch);
  v1::Subscription found;
  do {
    found = Get("t", "s");
  } while (found.counts().in_flight() < static_cast<int64_t>(kStreams) && !HasFailure());
  EXPECT_EQ(found.counts().streams(), static_cast<int64_t>(kStreams));
}

}  // namespace
}  // namespace duetime::rpc
