// SPDX-License-Identifier: Apache-2.0
//
// Pull and Settle, through a socket.
#include <string>
#include <thread>
#include <vector>

#include "tests/support/settlements.h"
#include "tests/unit/rpc/subscription_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

class PullTest : public SubscriptionFixture {
 protected:
  static v1::PullRequest Request(const std::string& topic, int messages = 0, int wait_s = 0) {
    v1::PullRequest request;
    request.set_topic(topic);
    request.set_max_messages(messages);
    if (wait_s > 0) request.mutable_wait()->set_seconds(wait_s);
    return request;
  }
  std::vector<v1::Delivery> MustPull(const v1::PullRequest& request) {
    const auto response = Must(&Messages::Pull, request);
    return {response.deliveries().begin(), response.deliveries().end()};
  }
  v1::SettleResponse MustSettle(const v1::SettleRequest& request) {
    return Must(&Messages::Settle, request);
  }
  // Waits until a client of the default subscription waits.
  void AwaitStream(const std::string& topic) {
    v1::GetSubscriptionResponse found;
    do {
      Call(&Admin::GetSubscription, "topic: '" + topic + "'", &found);
    } while (found.subscription().counts().streams() == 0);
  }
  v1::Message::State StateOf(const std::string& id) { return MustGetMessage(id).message().state(); }
};

TEST_F(PullTest, TakesWhatThereIsAndSettlesIt) {
  shards_ = 2;
  Start();
  EXPECT_TRUE(MustPull(Request("t")).empty());
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(MustSchedule(NewMessage("t", "x")));
  std::vector<v1::Delivery> taken;
  while (taken.size() < 4 && !HasFailure()) {
    for (v1::Delivery& delivery : MustPull(Request("t", 3, 10))) taken.push_back(delivery);
  }
  ASSERT_EQ(taken.size(), 4u);
  EXPECT_EQ(taken[0].payload(), "x");
  EXPECT_EQ(taken[0].attempt(), 1);
  EXPECT_TRUE(MustPull(Request("t")).empty());

  v1::SettleRequest settle;
  settle.add_settlements()->set_lease_token(taken[0].lease_token());
  settle.add_settlements()->set_lease_token(taken[1].lease_token());
  settle.add_settlements()->set_lease_token("fr00000000000");  // no such shard
  v1::Settlement* const extend = test::AddSettlement(taken[2].lease_token(), &settle);
  extend->mutable_extend()->mutable_duration()->set_seconds(60);
  v1::Settlement* const letter = test::AddSettlement(taken[3].lease_token(), &settle);
  letter->mutable_dead_letter()->set_reason("bad");
  const v1::SettleResponse settled = MustSettle(settle);
  EXPECT_EQ(settled.settled_size(), 3);
  ASSERT_EQ(settled.extended_size(), 1);
  EXPECT_EQ(settled.extended(0), taken[2].lease_token());
  ASSERT_EQ(settled.refused_size(), 1);
  EXPECT_EQ(settled.refused(0).reason(), v1::SettleRefusal::REASON_LEASE_LOST);
  EXPECT_EQ(StateOf(taken[0].message_id()), v1::Message::STATE_ACKED);
  EXPECT_EQ(StateOf(taken[3].message_id()), v1::Message::STATE_DEAD_LETTERED);
  EXPECT_EQ(MustPull(Request("t.dlq", 1, 10)).size(), 1u);

  // A repeated ack is refused. The nack makes the message due again.
  v1::SettleRequest again;
  again.add_settlements()->set_lease_token(taken[0].lease_token());
  test::AddSettlement(taken[2].lease_token(), &again)->mutable_nack()->mutable_delay();
  const v1::SettleResponse repeated = MustSettle(again);
  EXPECT_EQ(repeated.settled_size(), 1);
  EXPECT_EQ(repeated.refused_size(), 1);
  const std::vector<v1::Delivery> back = MustPull(Request("t", 1, 10));
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].message_id(), taken[2].message_id());
  EXPECT_EQ(back[0].attempt(), 2);
}

TEST_F(PullTest, WaitsForTheFirst) {
  shards_ = 2;
  Start();
  std::vector<v1::Delivery> taken;
  std::thread waiting([&] { taken = MustPull(Request("t", 0, 30)); });
  while (server_->streams() == 0) std::this_thread::yield();
  MustSchedule(NewMessage("t", "x"));
  waiting.join();
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_EQ(server_->streams(), 0u);
}

TEST_F(PullTest, GoesWithNothingWhenItsTimeIsUp) {
  Start();
  v1::PullRequest request = Request("t");
  request.mutable_wait()->set_nanos(20'000'000);
  EXPECT_TRUE(MustPull(request).empty());
  EXPECT_EQ(server_->streams(), 0u);
}

TEST_F(PullTest, LeasesEndByThemselves) {
  Start();
  MustSchedule(NewMessage("t", "x"));
  v1::PullRequest request = Request("t", 1, 10);
  request.mutable_lease_duration()->set_seconds(5);
  const std::vector<v1::Delivery> first = MustPull(request);
  ASSERT_EQ(first.size(), 1u);
  clock_.Jump(5'001);
  const std::vector<v1::Delivery> second = MustPull(request);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].attempt(), 2);
  v1::SettleRequest settle;
  settle.add_settlements()->set_lease_token(first[0].lease_token());
  EXPECT_EQ(MustSettle(settle).refused_size(), 1);
}

// A client that waits and leaves takes no message: the next client gets it.
TEST_F(PullTest, EndsWhenItsClientGoes) {
  Start();
  grpc::ClientContext context;
  std::thread waiting([&] {
    v1::PullResponse response;
    messages_->Pull(&context, Request("t", 0, 60), &response);
  });
  while (server_->streams() == 0) std::this_thread::yield();
  context.TryCancel();
  waiting.join();
  while (server_->streams() > 0) std::this_thread::yield();
  MustSchedule(NewMessage("t", "x"));
  const std::vector<v1::Delivery> taken = MustPull(Request("t", 0, 10));
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].attempt(), 1);
}

TEST_F(PullTest, EndsWhenTheServerDoes) {
  Start();
  grpc::Status status;
  std::thread waiting([&] { status = Call(&Messages::Pull, Request("t", 0, 60)); });
  while (server_->streams() == 0) std::this_thread::yield();
  server_->Drain();
  waiting.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  // During the drain, other leases can still be settled.
  v1::SettleRequest settle;
  settle.add_settlements()->set_lease_token("0000000000001");
  EXPECT_EQ(MustSettle(settle).refused_size(), 1);
}

TEST_F(PullTest, EndsWithItsSubscriptionAndGetsNothingOfAnotherWithThatName) {
  shards_ = 2;
  Start();
  grpc::Status status;
  v1::PullResponse old;
  std::thread waiting([&] { status = Call(&Messages::Pull, Request("t", 0, 30), &old); });
  AwaitStream("t");
  ASSERT_TRUE(Delete("t", "").ok());
  ASSERT_TRUE(Create("t", "").ok());
  MustSchedule(NewMessage("t", "x"));
  const std::vector<v1::Delivery> taken = MustPull(Request("t", 0, 10));
  waiting.join();
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].attempt(), 1);
  ExpectRefused(status, grpc::StatusCode::NOT_FOUND, "SUBSCRIPTION_NOT_FOUND", {});
  EXPECT_EQ(old.deliveries_size(), 0);
  EXPECT_EQ(server_->streams(), 0u);
}

// A disk that does not answer delays the waiting calls, but not the end of the server.
TEST_F(PullTest, WhatWaitsIsAnsweredWhenTheServerEnds) {
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;  // the server also checks its calls this often
  Start(options);
  MustSchedule(NewMessage("t", "x"));
  const std::vector<v1::Delivery> taken = MustPull(Request("t", 1, 10));
  ASSERT_EQ(taken.size(), 1u);
  gate->SetOpen(false);
  grpc::Status settled;
  grpc::Status pulled;
  grpc::Status made;
  std::vector<std::thread> waiting;
  waiting.emplace_back([&] {
    v1::SettleRequest settle;
    settle.add_settlements()->set_lease_token(taken[0].lease_token());
    settled = Call(&Messages::Settle, settle);
  });
  gate->AwaitAppend();
  waiting.emplace_back([&] { pulled = Call(&Messages::Pull, Request("t", 1, 30)); });
  // This call waits for the creation of its subscription.
  waiting.emplace_back([&] { made = Call(&Messages::Pull, Request("u", 1, 30)); });
  while (server_->streams() < 2) std::this_thread::yield();
  server_->Shutdown(std::chrono::milliseconds(20));
  for (std::thread& thread : waiting) thread.join();
  for (const grpc::Status& status : {settled, pulled, made}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  }
  // The late answers find no call.
  gate->SetOpen(true);
  node_->Stop();
}

TEST_F(PullTest, ADeadLetterMakesNoTopicThatItDoesNotNeed) {
  Start();
  struct Case {
    std::string topic;
    std::string own;  // the subscription's own dead-letter topic
    bool made;
  };
  for (const Case& one : {Case{"t", "lost", false}, Case{"u", "", true}}) {
    ASSERT_TRUE(Create(one.topic, "s", "dead_letter_topic: '" + one.own + "'").ok());
    MustSchedule(NewMessage(one.topic, "x"));
    v1::PullRequest request = Request(one.topic, 1, 10);
    request.set_subscription("s");
    const std::vector<v1::Delivery> taken = MustPull(request);
    ASSERT_EQ(taken.size(), 1u);
    v1::SettleRequest settle;
    test::AddSettlement(taken[0].lease_token(), &settle)->mutable_dead_letter();
    EXPECT_EQ(MustSettle(settle).settled_size(), 1);
    EXPECT_EQ(Call(&Admin::GetTopic, "name: '" + one.topic + ".dlq'").ok(), one.made);
  }
}

// No dead-letter topic is known to the shards, and the request names no topic.
TEST_F(PullTest, OneSettleMakesDeadLettersOfSeveralTopics) {
  shards_ = 2;
  Start();
  v1::SettleRequest settle;
  for (const char* topic : {"t", "u", "v"}) {
    for (int i = 0; i < 4; ++i) MustSchedule(NewMessage(topic, "x"));
    for (int left = 4; left > 0 && !HasFailure();) {
      for (const v1::Delivery& delivery : MustPull(Request(topic, 4, 10))) {
        v1::Settlement* const letter = test::AddSettlement(delivery.lease_token(), &settle);
        letter->mutable_dead_letter()->set_reason(topic);
        --left;
      }
    }
  }
  const v1::SettleResponse settled = MustSettle(settle);
  EXPECT_EQ(settled.settled_size(), 12);
  EXPECT_EQ(settled.refused_size(), 0);
  const std::vector<v1::Delivery> letters = MustPull(Request("u.dlq", 1, 10));
  ASSERT_EQ(letters.size(), 1u);
  EXPECT_EQ(letters[0].dead_letter().reason_text(), "u");
}

// The catalog cannot write the dead-letter topic, and after that no shard answers the settlement.
TEST_F(PullTest, P7_ASettlementWhoseDeadLetterTopicCannotBeWrittenIsAnswered) {
  Start();
  MustSchedule(NewMessage("t", "x"));
  const std::vector<v1::Delivery> taken = MustPull(Request("t", 1, 10));
  ASSERT_EQ(taken.size(), 1u);
  v1::SettleRequest settle;
  test::AddSettlement(taken[0].lease_token(), &settle)->mutable_dead_letter();
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  EXPECT_EQ(Reason(&Messages::Settle, settle), "STORAGE_FAILED");
}

TEST_F(PullTest, SharesItsSubscriptionWithStreams) {
  Start();
  TestSubscriber stream(messages_.get());
  stream.Start("t", 1, "s");
  MustSchedule(NewMessage("t", "1"));
  MustSchedule(NewMessage("t", "2"));
  stream.ReadDeliveries(1);
  v1::PullRequest request = Request("t", 10, 10);
  request.set_subscription("s");
  const std::vector<v1::Delivery> taken = MustPull(request);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_NE(taken[0].payload(), stream.deliveries[0].payload());
}

TEST_F(PullTest, TheCreditOfAStreamIsALimit) {
  api::ServerOptions options = DefaultOptions();
  options.limits.outstanding_messages_max = 2;
  Start(options);
  EXPECT_EQ(Reason(&Messages::Pull, Request("t", 3)), "INVALID_PULL");
  EXPECT_EQ(Reason(&Messages::Settle, "settlements { } settlements { } settlements { }"),
            "INVALID_SETTLE");
}

}  // namespace
}  // namespace duetime::rpc
