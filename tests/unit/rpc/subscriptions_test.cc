// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions that are created by a call or by use, through a socket.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/rpc/subscription_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

using Names = std::vector<std::string>;
using Payloads = std::multiset<std::string>;

class SubscriptionsTest : public SubscriptionFixture {};

TEST_F(SubscriptionsTest, AreMadeReadChangedListedAndDeleted) {
  shards_ = 2;
  Start();
  v1::CreateSubscriptionRequest wish = Wish("t", "b");
  wish.mutable_subscription()->mutable_settings()->mutable_lease_duration()->set_seconds(7);
  v1::Subscription made;
  ASSERT_TRUE(Create(wish, &made).ok());
  EXPECT_EQ(made.topic(), "t");
  EXPECT_EQ(made.settings().lease_duration().seconds(), 7);
  EXPECT_GT(made.create_time().seconds(), 0);
  ASSERT_TRUE(Create(wish).ok());  // an equal request
  const grpc::Status other = Create("t", "b");
  EXPECT_EQ(other.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(other), "SUBSCRIPTION_EXISTS");
  EXPECT_EQ(MetadataOf(other).at("subscription"), "b");
  ASSERT_TRUE(Create("t", "").ok());
  ASSERT_TRUE(Create("t", "a").ok());
  EXPECT_EQ(List("t"), (Names{"a", "b", "default"}));
  EXPECT_EQ(List("t", 1), (Names{"a", "b", "default"}));

  v1::SubscriptionSettings settings;
  settings.mutable_retry()->set_max_attempts(3);
  v1::Subscription updated;
  ASSERT_TRUE(Update("t", "b", settings, {"retry.max_attempts"}, &updated).ok());
  EXPECT_EQ(updated.settings().retry().max_attempts(), 3);
  EXPECT_EQ(updated.settings().lease_duration().seconds(), 7);

  v1::Subscription found;
  ASSERT_TRUE(Get("t", "b", &found).ok());
  EXPECT_EQ(found.settings().retry().max_attempts(), 3);
  EXPECT_EQ(found.counts().streams(), 0);
  ASSERT_TRUE(Delete("t", "b").ok());
  EXPECT_EQ(ReasonOf(Delete("t", "b")), "SUBSCRIPTION_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Get("t", "b", &found)), "SUBSCRIPTION_NOT_FOUND");
  EXPECT_EQ(List("t"), (Names{"a", "default"}));
}

TEST_F(SubscriptionsTest, RefusesWhatIsNotThere) {
  Start();
  v1::Subscription found;
  EXPECT_EQ(ReasonOf(Get("t", "s", &found)), "TOPIC_NOT_FOUND");
  MustSchedule(NewMessage("t", "x", 100));
  EXPECT_EQ(ReasonOf(Get("t", "s", &found)), "SUBSCRIPTION_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Update("t", "", {}, {})), "SUBSCRIPTION_NOT_FOUND");
}

TEST_F(SubscriptionsTest, HaveALimitPerTopic) {
  node_options_.catalog.subscriptions_max = 2;
  Start();
  ASSERT_TRUE(Create("t", "a").ok());
  ASSERT_TRUE(Create("t", "b").ok());
  const grpc::Status third = Create("t", "c");
  EXPECT_EQ(third.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(third), "SUBSCRIPTION_LIMIT");
  EXPECT_EQ(MetadataOf(third).at("limit"), "2");
  EXPECT_TRUE(Create("u", "c").ok());
  TestSubscriber subscriber(messages_.get());
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic("t");
  subscriber.Send(request);
  EXPECT_EQ(ReasonOf(subscriber.Finish()), "SUBSCRIPTION_LIMIT");
}

TEST_F(SubscriptionsTest, AreNotMadeByUseWhereNothingIs) {
  node_options_.catalog.auto_create = false;
  Start();
  ASSERT_TRUE(CreateTopic("t").ok());
  v1::SubscribeRequest request;
  request.mutable_start()->set_topic("t");
  request.mutable_start()->set_subscription("s");
  {
    TestSubscriber subscriber(messages_.get());
    subscriber.Send(request);
    EXPECT_EQ(ReasonOf(subscriber.Finish()), "SUBSCRIPTION_NOT_FOUND");
  }
  ASSERT_TRUE(Create("t", "s").ok());
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
  v1::Subscription found;
  ASSERT_TRUE(Get("t", "a", &found).ok());
  EXPECT_EQ(found.counts().in_flight(), 2);
  EXPECT_EQ(found.counts().streams(), 2);
  ASSERT_TRUE(Get("t", "b", &found).ok());
  EXPECT_EQ(found.counts().acked(), 2);
  EXPECT_EQ(found.counts().in_flight(), 0);

  a1.Ack(a1.deliveries[0].lease_token());
  a2.Ack(a2.deliveries[0].lease_token());
  a1.ReadSettled(1);
  a2.ReadSettled(1);
  EXPECT_EQ(MustGetMessage(id).message().state(), v1::Message::STATE_ACKED);
}

TEST_F(SubscriptionsTest, TheFirstOneTakesOverWhatWaits) {
  Start();
  MustSchedule(NewMessage("t", "before"));
  TestSubscriber first(messages_.get());
  first.Start("t", 0, "first");
  first.ReadDeliveries(1);
  EXPECT_EQ(first.deliveries[0].payload(), "before");
}

TEST_F(SubscriptionsTest, ALaterOneStartsWithWhatIsNewUnlessItAsksForAll) {
  Start();
  ASSERT_TRUE(Create("t", "first").ok());
  MustSchedule(NewMessage("t", "before"));
  v1::CreateSubscriptionRequest wish = Wish("t", "all");
  wish.set_start(v1::CreateSubscriptionRequest::START_ALL);
  ASSERT_TRUE(Create(wish).ok());
  wish = Wish("t", "new");
  wish.set_start(v1::CreateSubscriptionRequest::START_NEW);
  ASSERT_TRUE(Create(wish).ok());
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

TEST_F(SubscriptionsTest, DeletingOneReleasesItsMessagesAndEndsItsStreams) {
  Start();
  ASSERT_TRUE(Create("t", "a").ok());
  ASSERT_TRUE(Create("t", "b").ok());
  TestSubscriber a(messages_.get());
  TestSubscriber b(messages_.get());
  a.Start("t", 0, "a");
  b.Start("t", 0, "b");
  const std::string id = MustSchedule(NewMessage("t", "x"));
  a.ReadDeliveries(1);
  b.ReadDeliveries(1);
  a.Ack(a.deliveries[0].lease_token());
  a.ReadSettled(1);
  ASSERT_TRUE(Delete("t", "b").ok());
  EXPECT_EQ(ReasonOf(b.Finish()), "SUBSCRIPTION_NOT_FOUND");
  v1::Message::State state{};
  do {
    state = MustGetMessage(id).message().state();
  } while (state == v1::Message::STATE_IN_FLIGHT || state == v1::Message::STATE_DUE);
  EXPECT_EQ(state, v1::Message::STATE_DROPPED);
}

TEST_F(SubscriptionsTest, TheLastOneLeavesItsMessagesToTheNext) {
  Start();
  ASSERT_TRUE(Create("t", "a").ok());
  MustSchedule(NewMessage("t", "x"));
  ASSERT_TRUE(Delete("t", "a").ok());
  EXPECT_TRUE(List("t").empty());
  MustSchedule(NewMessage("t", "y"));
  TestSubscriber b(messages_.get());
  b.Start("t", 0, "b");
  b.ReadDeliveries(2);
  EXPECT_EQ(b.payloads(), (Payloads{"x", "y"}));
}

TEST_F(SubscriptionsTest, AreThereAfterARestart) {
  shards_ = 2;
  Start();
  v1::CreateSubscriptionRequest wish = Wish("t", "a");
  wish.mutable_subscription()->mutable_settings()->set_paused(true);
  ASSERT_TRUE(Create(wish).ok());
  ASSERT_TRUE(Create("t", "b").ok());
  MustSchedule(NewMessage("t", "x"));
  {
    TestSubscriber b(messages_.get());
    b.Start("t", 0, "b");
    b.ReadDeliveries(1);
    b.Ack(b.deliveries[0].lease_token());
    b.ReadSettled(1);
  }
  Restart();
  EXPECT_EQ(List("t"), (Names{"a", "b"}));
  v1::Subscription found;
  ASSERT_TRUE(Get("t", "a", &found).ok());
  EXPECT_TRUE(found.settings().paused());
  ASSERT_TRUE(Create("t", "c").ok());
  MustSchedule(NewMessage("t", "y"));
  TestSubscriber b(messages_.get());
  b.Start("t", 0, "b");
  b.ReadDeliveries(1);
  EXPECT_EQ(b.payloads(), (Payloads{"y"}));
}

TEST_F(SubscriptionsTest, APausedOneWaitsAndHoldsUpNoOther) {
  Start();
  v1::CreateSubscriptionRequest wish = Wish("t", "paused");
  wish.mutable_subscription()->mutable_settings()->set_paused(true);
  ASSERT_TRUE(Create(wish).ok());
  ASSERT_TRUE(Create("t", "other").ok());
  TestSubscriber paused(messages_.get());
  TestSubscriber other(messages_.get());
  paused.Start("t", 0, "paused");
  other.Start("t", 0, "other");
  MustSchedule(NewMessage("t", "x"));
  other.ReadDeliveries(1);
  v1::Subscription found;
  ASSERT_TRUE(Get("t", "paused", &found).ok());
  EXPECT_EQ(found.counts().ready(), 1);
  EXPECT_TRUE(found.counts().has_oldest_due_time());
  ASSERT_TRUE(Update("t", "paused", {}, {"paused"}, &found).ok());
  EXPECT_FALSE(found.settings().paused());
  paused.ReadDeliveries(1);
}

TEST_F(SubscriptionsTest, APausedTopicAcceptsAndDoesNotDeliver) {
  shards_ = 2;
  Start();
  v1::PauseTopicRequest pause;
  pause.set_name("t");
  v1::PauseTopicResponse paused;
  EXPECT_EQ(ReasonOf(admin_->PauseTopic(NewContext().get(), pause, &paused)), "TOPIC_NOT_FOUND");
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  ASSERT_TRUE(admin_->PauseTopic(NewContext().get(), pause, &paused).ok());
  EXPECT_TRUE(paused.topic().settings().paused());
  for (int i = 0; i < 4; ++i) MustSchedule(NewMessage("t", "x"));
  v1::Subscription found;
  do {
    ASSERT_TRUE(Get("t", "", &found).ok());
  } while (found.counts().ready() < 4);
  EXPECT_EQ(found.counts().in_flight(), 0);
  v1::ResumeTopicRequest resume;
  resume.set_name("t");
  v1::ResumeTopicResponse resumed;
  ASSERT_TRUE(admin_->ResumeTopic(NewContext().get(), resume, &resumed).ok());
  EXPECT_FALSE(resumed.topic().settings().paused());
  subscriber.ReadDeliveries(4);
}

TEST_F(SubscriptionsTest, ATopicsRateHoldsForEachSubscription) {
  Start();
  v1::TopicSettings settings;
  settings.mutable_rate()->set_messages_per_second(1);
  settings.mutable_rate()->set_burst(2);
  ASSERT_TRUE(CreateTopic("t", settings).ok());
  ASSERT_TRUE(Create("t", "a").ok());
  ASSERT_TRUE(Create("t", "b").ok());
  TestSubscriber a(messages_.get());
  TestSubscriber b(messages_.get());
  a.Start("t", 0, "a");
  b.Start("t", 0, "b");
  for (int i = 0; i < 3; ++i) MustSchedule(NewMessage("t", "x"));
  a.ReadDeliveries(2);
  b.ReadDeliveries(2);
  v1::Subscription found;
  ASSERT_TRUE(Get("t", "a", &found).ok());
  EXPECT_EQ(found.counts().delivered(), 2);
  EXPECT_EQ(found.counts().ready(), 1);
  clock_.Jump(1'000);
  a.ReadDeliveries(3);
  b.ReadDeliveries(3);
}

TEST_F(SubscriptionsTest, GoWithTheirTopic) {
  Start();
  ASSERT_TRUE(Create("t", "a").ok());
  ASSERT_TRUE(Create("t", "b").ok());
  TestSubscriber a(messages_.get());
  a.Start("t", 0, "a");
  ASSERT_TRUE(DeleteTopic("t").ok());
  EXPECT_EQ(ReasonOf(a.Finish()), "SUBSCRIPTION_NOT_FOUND");
  MustSchedule(NewMessage("t", "again"));
  EXPECT_TRUE(List("t").empty());
  TestSubscriber b(messages_.get());
  b.Start("t", 0, "b");
  b.ReadDeliveries(1);
}

// A subscription is created during the deletion of its topic. The creation takes effect afterwards
// and creates the topic again.
TEST_F(SubscriptionsTest, OneIsMadeBeforeOrAfterTheDeletionOfItsTopic) {
  GatedStore* const gate = UseGatedStore();
  Start();
  ASSERT_TRUE(CreateTopic("t").ok());
  gate->HoldAppends(storage::RecordType::kObject);
  grpc::Status deleted;
  std::thread deleter([&] { deleted = DeleteTopic("t"); });
  gate->AwaitAppend();
  grpc::Status made;
  std::thread maker([&] { made = Create("t", "s"); });
  // There is one worker thread. Once it answers a later call, it has handled this one.
  const auto& calls = stats_.of(api::MethodOf<v1::CreateSubscriptionRequest>());
  while (calls.started.load() == 0) std::this_thread::yield();
  Health();
  // A deletion writes twice: at its start and at its end.
  gate->LetOneThrough();
  gate->LetOneThrough();
  deleter.join();
  EXPECT_TRUE(deleted.ok()) << deleted.error_message();
  gate->HoldAppends(std::nullopt);
  maker.join();
  EXPECT_TRUE(made.ok()) << made.error_message();
  EXPECT_EQ(List("t"), (Names{"s"}));
  v1::Subscription found;
  EXPECT_TRUE(Get("t", "s", &found).ok());
  Restart();
  EXPECT_EQ(List("t"), (Names{"s"}));
}

// A client uses a topic again during its deletion. The topic then exists, also after a restart.
TEST_F(SubscriptionsTest, ATopicThatIsUsedWhileItIsDeletedIsThereAgain) {
  GatedStore* const gate = UseGatedStore();
  Start();
  ASSERT_TRUE(Create("t", "s").ok());
  MustSchedule(NewMessage("t", "x"));
  {
    TestSubscriber s(messages_.get());
    s.Start("t", 0, "s");
    s.ReadDeliveries(1);
    s.Ack(s.deliveries[0].lease_token());
    s.ReadSettled(1);
  }
  gate->HoldAppends(storage::RecordType::kObject);
  std::thread deleter([&] { EXPECT_TRUE(DeleteTopic("t").ok()); });
  gate->AwaitAppend();
  // The topic is marked as deleted, and the deletion of its subscription is under way.
  gate->LetOneThrough();
  v1::Subscription found;
  while (ReasonOf(Get("t", "s", &found)) != "TOPIC_NOT_FOUND") std::this_thread::yield();
  std::thread user([&] {
    v1::PullRequest request;
    request.set_topic("t");
    request.set_subscription("other");
    v1::PullResponse response;
    EXPECT_TRUE(messages_->Pull(NewContext().get(), request, &response).ok());
  });
  const auto& calls = stats_.of(api::MethodOf<v1::PullRequest>());
  while (calls.started.load() == 0) std::this_thread::yield();
  Health();
  gate->HoldAppends(std::nullopt);
  deleter.join();
  user.join();
  EXPECT_EQ(List("t"), (Names{"other"}));
  ASSERT_TRUE(Delete("t", "other").ok());
  Restart();
  EXPECT_TRUE(List("t").empty());
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

TEST_F(SubscriptionsTest, NothingOfADeletedOneCanBeSettledAndItGoesToTheNext) {
  Start();
  ASSERT_TRUE(Create("t", "s").ok());
  MustSchedule(NewMessage("t", "x"));
  v1::PullRequest pull;
  pull.set_topic("t");
  pull.set_subscription("s");
  pull.mutable_wait()->set_seconds(10);
  v1::PullResponse pulled;
  ASSERT_TRUE(messages_->Pull(NewContext().get(), pull, &pulled).ok());
  ASSERT_EQ(pulled.deliveries_size(), 1);
  ASSERT_TRUE(Delete("t", "s").ok());
  v1::SettleRequest settle;
  settle.add_settlements()->set_lease_token(pulled.deliveries(0).lease_token());
  v1::SettleResponse settled;
  ASSERT_TRUE(messages_->Settle(NewContext().get(), settle, &settled).ok());
  EXPECT_EQ(settled.refused_size(), 1);
  TestSubscriber next(messages_.get());
  next.Start("t", 0, "next");
  next.ReadDeliveries(1);
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
  v1::ScheduleBatchResponse accepted;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &accepted).ok());
  v1::Subscription found;
  do {
    ASSERT_TRUE(Get("t", "s", &found).ok());
  } while (!found.counts().behind());
  EXPECT_TRUE(found.counts().has_oldest_due_time());
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
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  std::vector<std::unique_ptr<v1::Messages::Stub>> stubs;
  for (int i = 0; i < 4; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channels.push_back(grpc::CreateCustomChannel(server_->addresses()[0],
                                                 grpc::InsecureChannelCredentials(), arguments));
    stubs.push_back(v1::Messages::NewStub(channels.back()));
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
  v1::ScheduleBatchResponse accepted;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &accepted).ok());
  v1::Subscription found;
  do {
    ASSERT_TRUE(Get("t", "s", &found).ok());
  } while (found.counts().in_flight() < static_cast<int64_t>(kStreams));
  EXPECT_EQ(found.counts().streams(), static_cast<int64_t>(kStreams));
}

}  // namespace
}  // namespace duetime::rpc
