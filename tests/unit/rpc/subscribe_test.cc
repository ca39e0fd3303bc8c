// SPDX-License-Identifier: Apache-2.0
//
// Subscribe, through a socket.
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "storage/message_record.h"
#include "tests/support/settlements.h"
#include "tests/unit/rpc/server_fixture.h"
#include "tests/unit/rpc/test_subscriber.h"

namespace duetime::rpc {
namespace {

class SubscribeTest : public ServerTest {
 protected:
  // Sends one request on a new stream and returns the status at the stream's end.
  grpc::Status FirstRequest(const v1::SubscribeRequest& request) {
    TestSubscriber subscriber(messages_.get());
    subscriber.Send(request);
    return subscriber.Finish();
  }
};

TEST_F(SubscribeTest, DeliversAndConfirmsAnAck) {
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("orders");
  EXPECT_EQ(subscriber.last().started().max_outstanding_messages(), 1000);
  EXPECT_EQ(subscriber.last().started().max_outstanding_bytes(), 64 << 20);
  EXPECT_EQ(subscriber.last().started().lease_duration().seconds(), 30);
  v1::ScheduleRequest request = NewMessage("orders", "hello");
  (*request.mutable_attributes())["k"] = "v";
  const std::string id = MustSchedule(request);
  subscriber.ReadDeliveries(1);
  const v1::Delivery delivery = subscriber.deliveries[0];
  EXPECT_EQ(delivery.message_id(), id);
  EXPECT_EQ(delivery.payload(), "hello");
  EXPECT_EQ(delivery.attributes().at("k"), "v");
  EXPECT_EQ(delivery.attempt(), 1);
  EXPECT_FALSE(delivery.maybe_redelivered());
  EXPECT_GT(delivery.deliver_time().seconds(), 0);
  EXPECT_GE(delivery.lateness().seconds(), 0);
  subscriber.Ack(delivery.lease_token());
  subscriber.ReadSettled(1);
  EXPECT_EQ(*subscriber.settled.begin(), delivery.lease_token());
  // A second ack of the same lease is refused and changes nothing.
  subscriber.Ack(delivery.lease_token());
  subscriber.ReadRefused(1);
  EXPECT_EQ(subscriber.refused[delivery.lease_token()], v1::SettleRefusal::REASON_LEASE_LOST);
  EXPECT_EQ(server_->streams(), 1u);
}

TEST_F(SubscribeTest, MaxDeliveriesBoundsTheStream) {
  Start();
  TestSubscriber first(messages_.get());
  first.Start("orders", /*max_messages=*/2, "", /*max_deliveries=*/5);
  for (int i = 0; i < 8; ++i) MustSchedule(NewMessage("orders", "p"));
  for (size_t i = 0; i < 5; ++i) {
    first.ReadDeliveries(i + 1);
    first.Ack(first.deliveries[i].lease_token());
  }
  first.ReadSettled(5);
  // What the first stream leaves comes here, for the first time.
  TestSubscriber second(messages_.get());
  second.Start("orders");
  second.ReadDeliveries(3);
  for (const v1::Delivery& delivery : second.deliveries) EXPECT_EQ(delivery.attempt(), 1);
  EXPECT_EQ(first.deliveries.size(), 5u);
}

TEST_F(SubscribeTest, ANackBringsTheNextAttempt) {
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("orders");
  const std::string id = MustSchedule(NewMessage("orders", "hello"));
  subscriber.ReadDeliveries(1);
  v1::SubscribeRequest request;
  test::AddSettlement(subscriber.deliveries[0].lease_token(), &request)->mutable_nack();
  ASSERT_TRUE(subscriber.Send(request));
  subscriber.ReadDeliveries(2);
  EXPECT_EQ(subscriber.deliveries[1].message_id(), id);
  EXPECT_EQ(subscriber.deliveries[1].attempt(), 2);
  EXPECT_TRUE(subscriber.deliveries[1].maybe_redelivered());
  EXPECT_NE(subscriber.deliveries[1].lease_token(), subscriber.deliveries[0].lease_token());
}

TEST_F(SubscribeTest, AReleaseGivesTheMessageToAnotherStream) {
  Start();
  TestSubscriber one(messages_.get());
  one.Start("orders");
  const std::string id = MustSchedule(NewMessage("orders", "hello"));
  one.ReadDeliveries(1);
  TestSubscriber other(messages_.get());
  other.Start("orders");
  v1::SubscribeRequest request;
  test::AddSettlement(one.deliveries[0].lease_token(), &request)->mutable_release();
  request.set_no_more_deliveries(true);
  ASSERT_TRUE(one.Send(request));
  other.ReadDeliveries(1);
  EXPECT_EQ(other.deliveries[0].message_id(), id);
  EXPECT_EQ(other.deliveries[0].attempt(), 2);
  one.ReadSettled(1);
  EXPECT_EQ(one.deliveries.size(), 1u);
  // A delay has the bounds of a nack's delay.
  v1::SubscribeRequest late;
  v1::Settlement* const release = test::AddSettlement(other.deliveries[0].lease_token(), &late);
  release->mutable_release()->mutable_delay()->set_seconds(100'000);
  ASSERT_TRUE(other.Send(late));
  other.ReadRefused(1);
  EXPECT_EQ(other.refused[other.deliveries[0].lease_token()],
            v1::SettleRefusal::REASON_OUT_OF_RANGE);
}

TEST_F(SubscribeTest, RefusesSettlementsInBand) {
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("orders");
  MustSchedule(NewMessage("orders", "hello"));
  subscriber.ReadDeliveries(1);
  const std::string token = subscriber.deliveries[0].lease_token();
  const std::string other_shard = "a000000000000";
  v1::SubscribeRequest request;
  request.add_settlements()->set_lease_token(other_shard);
  request.add_settlements()->set_lease_token("0000000000001");  // no such lease
  request.add_settlements()->set_lease_token("not a token");
  v1::Settlement* const extend = test::AddSettlement(token, &request);
  extend->mutable_extend()->mutable_duration()->set_seconds(100'000);
  ASSERT_TRUE(subscriber.Send(request));
  subscriber.ReadRefused(4);
  EXPECT_EQ(subscriber.refused[other_shard], v1::SettleRefusal::REASON_LEASE_LOST);
  EXPECT_EQ(subscriber.refused["0000000000001"], v1::SettleRefusal::REASON_LEASE_LOST);
  EXPECT_EQ(subscriber.refused["not a token"], v1::SettleRefusal::REASON_LEASE_LOST);
  EXPECT_EQ(subscriber.refused[token], v1::SettleRefusal::REASON_OUT_OF_RANGE);
  // The lease goes on.
  v1::SubscribeRequest good;
  v1::Settlement* const better = test::AddSettlement(token, &good);
  better->mutable_extend()->mutable_duration()->set_seconds(60);
  ASSERT_TRUE(subscriber.Send(good));
  subscriber.ReadExtended(1);
  EXPECT_EQ(*subscriber.extended.begin(), token);
  EXPECT_TRUE(subscriber.settled.empty());
}

TEST_F(SubscribeTest, NeverGivesMoreThanTheCredit) {
  shards_ = 2;
  Start();
  constexpr size_t kMessages = 20;
  for (size_t i = 0; i < kMessages; ++i) MustSchedule(NewMessage("orders", "x"));
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("orders", 3);
  std::set<std::string> ids;
  size_t acked = 0;
  while (acked < kMessages) {
    subscriber.ReadDeliveries(acked + 1);
    ASSERT_LE(subscriber.deliveries.size() - acked, 3u);
    ids.insert(subscriber.deliveries[acked].message_id());
    subscriber.Ack(subscriber.deliveries[acked].lease_token());
    ++acked;
  }
  EXPECT_EQ(ids.size(), kMessages);
  subscriber.ReadSettled(kMessages);
}

TEST_F(SubscribeTest, InsistsOnOneStartAndShortTokens) {
  Start();
  TestSubscriber twice(messages_.get());
  twice.Start("t");
  v1::SubscribeRequest again;
  again.mutable_start()->set_topic("t");
  twice.Send(again);
  EXPECT_EQ(ReasonOf(twice.Finish()), "INVALID_SUBSCRIBE");

  // A refusal would repeat the text, and could wait for a client that does not read.
  TestSubscriber long_token(messages_.get());
  long_token.Start("t");
  v1::SubscribeRequest settle;
  test::AddSettlement(std::string(65, 'a'), &settle);
  long_token.Send(settle);
  EXPECT_EQ(ReasonOf(long_token.Finish()), "INVALID_SUBSCRIBE");

  TestSubscriber silent(messages_.get());
  silent.HalfClose();
  EXPECT_EQ(ReasonOf(silent.Finish()), "INVALID_SUBSCRIBE");
}

TEST_F(SubscribeTest, WaitsForAStartAndNotForEver) {
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;  // the server also checks its streams this often
  Start(options);
  TestSubscriber silent(messages_.get());
  const metrics::RpcMethodStats& streams = stats_.of(api::MethodOf<v1::SubscribeRequest>());
  while (streams.started.load() == 0) std::this_thread::yield();
  clock_.Jump(10'000);
  const grpc::Status status = silent.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "INVALID_SUBSCRIBE");
}

TEST_F(SubscribeTest, SendsHeartbeatsWhenThereIsNothingElse) {
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;
  Start(options);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(subscriber.ReadOne());
    EXPECT_TRUE(subscriber.last().has_heartbeat());
    EXPECT_GT(subscriber.last().heartbeat().server_time().seconds(), 0);
  }
}

TEST_F(SubscribeTest, ConfirmsTheLastAcksAfterAHalfClose) {
  GatedStore* const gate = UseGatedStore();
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  for (int i = 0; i < 10; ++i) MustSchedule(NewMessage("t", "p"));
  subscriber.ReadDeliveries(10);
  gate->SetOpen(false);
  v1::SubscribeRequest request;
  for (const v1::Delivery& delivery : subscriber.deliveries) {
    request.add_settlements()->set_lease_token(delivery.lease_token());
  }
  ASSERT_TRUE(subscriber.Send(request));
  subscriber.HalfClose();
  // The acks reach the disk only after the shard has detached the subscriber.
  while (node_->shard_stats()[0].streams != 0) std::this_thread::yield();
  gate->SetOpen(true);
  EXPECT_TRUE(subscriber.Finish().ok());
  EXPECT_EQ(subscriber.settled.size(), 10u);
}

TEST_F(SubscribeTest, WhatARefusedSubscriberHeldGoesToTheNext) {
  Start();
  const std::string id = MustSchedule(NewMessage("t", "p"));
  TestSubscriber first(messages_.get());
  first.Start("t");
  first.ReadDeliveries(1);
  v1::SubscribeRequest again;
  again.mutable_start()->set_topic("t");
  first.Send(again);
  EXPECT_EQ(ReasonOf(first.Finish()), "INVALID_SUBSCRIBE");
  TestSubscriber second(messages_.get());
  second.Start("t");
  second.ReadDeliveries(1);
  EXPECT_EQ(second.deliveries[0].message_id(), id);
  EXPECT_EQ(second.deliveries[0].attempt(), 2);
}

TEST_F(SubscribeTest, WhatAVanishedSubscriberHeldGoesToTheNext) {
  Start();
  const std::string id = MustSchedule(NewMessage("t", "p"));
  TestSubscriber first(messages_.get());
  first.Start("t");
  first.ReadDeliveries(1);
  TestSubscriber second(messages_.get());
  second.Start("t");
  first.Cancel();
  second.ReadDeliveries(1);
  EXPECT_EQ(second.deliveries[0].message_id(), id);
  EXPECT_EQ(second.deliveries[0].attempt(), 2);
  // The lease of the first stream ended with it.
  second.Ack(first.deliveries[0].lease_token());
  second.ReadRefused(1);
}

TEST_F(SubscribeTest, DrainsWithANoticeThenEnds) {
  api::ServerOptions options = DefaultOptions();
  options.drain_grace_ms = 1234;
  Start(options);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  MustSchedule(NewMessage("t", "p"));
  subscriber.ReadDeliveries(1);
  server_->Drain();
  while (!subscriber.last().has_drain()) ASSERT_TRUE(subscriber.ReadOne());
  EXPECT_EQ(subscriber.last().drain().grace().seconds(), 1);
  // In-flight deliveries can still be settled.
  subscriber.Ack(subscriber.deliveries[0].lease_token());
  subscriber.ReadSettled(1);
  v1::SubscribeRequest late;
  late.mutable_start()->set_topic("t");
  EXPECT_EQ(ReasonOf(FirstRequest(late)), "DRAINING");
  server_->Shutdown(kTestDeadline);
  const grpc::Status status = subscriber.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
}

// The answer to a settlement comes after the calls are abandoned, or never. Then only a sweep ends
// the stream, and Shutdown waits for it.
TEST_F(SubscribeTest, AShutdownDoesNotWaitForASettlementForEver) {
  GatedStore* const gate = UseGatedStore();
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  MustSchedule(NewMessage("t", "p"));
  subscriber.ReadDeliveries(1);
  gate->SetOpen(false);
  subscriber.Ack(subscriber.deliveries[0].lease_token());
  gate->AwaitAppend();
  server_->Shutdown(std::chrono::milliseconds(10));
  EXPECT_EQ(subscriber.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  gate->SetOpen(true);
}

TEST_F(SubscribeTest, EndsWhenStorageFails) {
  Start();
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t");
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  EXPECT_EQ(Reason(&Messages::Schedule, NewMessage("t", "p", 100)), "STORAGE_FAILED");
  ExpectRefused(subscriber.Finish(), grpc::StatusCode::UNAVAILABLE, "STORAGE_FAILED", {});
}

TEST_F(SubscribeTest, HasALimitOfStreams) {
  api::ServerOptions options = DefaultOptions();
  options.streams_max = 1;
  Start(options);
  {
    TestSubscriber first(messages_.get());
    first.Start("t");
    v1::SubscribeRequest request;
    request.mutable_start()->set_topic("t");
    ExpectRefused(FirstRequest(request), grpc::StatusCode::RESOURCE_EXHAUSTED, "STREAM_LIMIT", {});
    first.HalfClose();
    EXPECT_TRUE(first.Finish().ok());
  }
  // The client sees the end of a stream a moment before the server frees its place.
  for (;;) {
    TestSubscriber next(messages_.get());
    v1::SubscribeRequest request;
    request.mutable_start()->set_topic("t");
    next.Send(request);
    if (next.ReadOne()) break;
    ASSERT_EQ(ReasonOf(next.Finish()), "STREAM_LIMIT");
  }
}

TEST_F(SubscribeTest, ManyMessagesArriveOnceAndInOrder) {
  shards_ = 2;
  api::ServerOptions options = DefaultOptions();
  options.io_threads = 2;
  Start(options);
  constexpr size_t kMessages = 5'000;
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 1'000);
  for (size_t sent = 0; sent < kMessages; sent += 500) {
    v1::ScheduleBatchRequest batch;
    for (size_t i = 0; i < 500; ++i) {
      *batch.add_messages() = NewMessage("t", std::string(100, 'p'));
    }
    Must(&Messages::ScheduleBatch, batch);
  }
  size_t acked = 0;
  std::set<std::string> ids;
  while (ids.size() < kMessages) {
    subscriber.ReadDeliveries(acked + 1);
    v1::SubscribeRequest request;
    for (; acked < subscriber.deliveries.size(); ++acked) {
      ASSERT_EQ(subscriber.deliveries[acked].attempt(), 1);
      ids.insert(subscriber.deliveries[acked].message_id());
      request.add_settlements()->set_lease_token(subscriber.deliveries[acked].lease_token());
    }
    ASSERT_TRUE(subscriber.Send(request));
  }
  subscriber.ReadSettled(kMessages);
  EXPECT_TRUE(subscriber.refused.empty());
  EXPECT_EQ(subscriber.deliveries.size(), kMessages);
}

TEST_F(SubscribeTest, ADamagedRecordIsCountedAndNotDelivered) {
  // Written past the server: a message whose payload was changed after it was encoded.
  const uint64_t due_ms = clock_.Read().wall_ms + 50;
  const storage::MessageId id = storage::MessageId::Make(1, 1, 0, due_ms);
  const storage::TopicId topic{1};
  std::string value = storage::EncodeMessageRecord(
      {.header = {.topic = topic, .deliver_ms = due_ms, .accept_ms = due_ms},
       .payload = "payload"});
  value.back() = static_cast<char>(value.back() ^ 1);
  storage::Record name;
  name.type = storage::RecordType::kTopic;
  name.topic = topic;
  name.value = "t";
  storage::Record accept;
  accept.type = storage::RecordType::kAccept;
  accept.key = {due_ms, id};
  accept.value = value;
  const std::vector<storage::RecordBatch> group = {{name, accept}};
  ASSERT_EQ(store().Append(group, storage::Durability::kSynced), storage::AppendOutcome::kAccepted);
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;
  Start(options);
  TestSubscriber subscriber(messages_.get());
  subscriber.Start("t", 1);
  while (stats_.damaged_records.load() == 0) ASSERT_TRUE(subscriber.ReadOne());
  EXPECT_TRUE(subscriber.deliveries.empty());
  // The damaged message gave its credit back: a sound message is delivered, and the server
  // confirmed nothing.
  MustSchedule(NewMessage("t", "sound"));
  subscriber.ReadDeliveries(1);
  EXPECT_EQ(subscriber.deliveries[0].payload(), "sound");
  EXPECT_TRUE(subscriber.settled.empty());
  EXPECT_TRUE(subscriber.refused.empty());

  ExpectRefused(Call(&Messages::Get, "message_id: '" + id.ToString() + "'"),
                grpc::StatusCode::DATA_LOSS, "CHECKSUM_MISMATCH", {});
}

TEST_F(SubscribeTest, ASlowReaderHoldsNothingUp) {
  api::ServerOptions options = DefaultOptions();
  Start(options);
  TestSubscriber slow(messages_.get());
  slow.Start("slow", 1'000);
  const std::string payload(100'000, 'x');
  for (int i = 0; i < 200; ++i) MustSchedule(NewMessage("slow", payload));
  // 20 MB wait for a client that does not read. Other clients are served, and the server ends
  // cleanly.
  TestSubscriber quick(messages_.get());
  quick.Start("quick");
  MustSchedule(NewMessage("quick", "p"));
  quick.ReadDeliveries(1);
  EXPECT_LT(stats_.unsent_bytes.load(), 2'000'000u) << "most of them wait in the store";
  slow.ReadDeliveries(200);
  EXPECT_EQ(stats_.unsent_bytes.load(), 0u);
}

TEST_F(SubscribeTest, AStuckWriteDoesNotHoldUpTheShutdown) {
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;  // the server also checks its streams this often
  Start(options);
  TestSubscriber slow(messages_.get());
  slow.Start("slow", 1'000);
  const std::string payload(100'000, 'x');
  for (int i = 0; i < 200; ++i) MustSchedule(NewMessage("slow", payload));
  server_->Shutdown(std::chrono::milliseconds(50));
  EXPECT_FALSE(slow.Finish().ok());
}

}  // namespace
}  // namespace duetime::rpc
