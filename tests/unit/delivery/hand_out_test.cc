// SPDX-License-Identifier: Apache-2.0
//
// HandOut: ready messages on their way to streams.
#include "server/delivery/hand_out.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/pace/turns.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

constexpr size_t kFrameMax = 3;
constexpr size_t kBudget = 1'000;

class HandOutTest : public DeliveryWorld {
 protected:
  HandOutTest() : DeliveryWorld(SmallFrames()) {}

  static ShardLimits SmallFrames() {
    ShardLimits limits;
    limits.frame_messages_max = kFrameMax;
    limits.frame_bytes_max = 1'000;
    return limits;
  }
  // True if there is more to do.
  bool Step(size_t budget = kBudget) {
    bool more = false;
    EXPECT_TRUE(p_.hand_out->Step(now_, budget, &more).ok());
    return more;
  }
  std::vector<storage::MessageRef> Ready(size_t count, Subscription* subscription) {
    std::vector<storage::MessageRef> messages;
    for (size_t i = 0; i < count; ++i) {
      messages.push_back(Put());
      DeliveryWorld::Ready(subscription, messages.back());
    }
    return messages;
  }
  size_t DeliveredTo(protocol::StreamId stream) const {
    size_t count = 0;
    for (const protocol::DeliveryFrame& frame : effects_.frames) {
      if (frame.stream == stream) count += frame.deliveries.size();
    }
    return count;
  }
};

// The code that decodes the record refuses it and gives the message back. It is not taken for one
// that has left its place.
TEST_F(HandOutTest, ADamagedMessageIsNotForgotten) {
  Attach(one_);
  const auto messages = Ready(3, one_);
  disk_.Damage(0, messages[1].key);
  EXPECT_FALSE(Step());
  ASSERT_EQ(effects_.frames.size(), 1u);
  const auto& deliveries = effects_.frames[0].deliveries;
  ASSERT_EQ(deliveries.size(), 3u);
  EXPECT_FALSE(deliveries[0].record.empty());
  EXPECT_TRUE(deliveries[1].record.empty());
  EXPECT_FALSE(deliveries[2].record.empty());
  EXPECT_TRUE(core_.reader.ok());
}

TEST_F(HandOutTest, DeliveriesKeepTheOrderAndFillFrames) {
  Attach(one_);
  const auto messages = Ready(2 * kFrameMax + 1, one_);
  EXPECT_FALSE(Step());
  ASSERT_EQ(effects_.frames.size(), 3u);
  std::vector<storage::MessageId> ids;
  for (const protocol::DeliveryFrame& frame : effects_.frames) {
    EXPECT_LE(frame.deliveries.size(), kFrameMax);
    for (const protocol::Delivery& delivery : frame.deliveries) {
      EXPECT_EQ(delivery.attempt, 1u);
      EXPECT_FALSE(delivery.maybe_redelivered);
      ids.push_back(delivery.id);
    }
  }
  ASSERT_EQ(ids.size(), messages.size());
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], messages[i].key.id);
  EXPECT_EQ(core_.table.count(EntryState::kInFlight), messages.size());
}

TEST_F(HandOutTest, WhatIsNotDueAfterAStepBackOfTheClockWaitsOnDisk) {
  Attach(one_);
  const storage::MessageRef message = Put();
  DeliveryWorld::Ready(one_, message);
  now_.wall_ms -= 5'000;
  DeliveryWorld::Ready(one_, Put());
  Step();
  EXPECT_EQ(DeliveredTo(kStream), 1u) << "the message behind it is not held up";
  Commit();
  EXPECT_TRUE(Listed(message.key, *one_));
  EXPECT_EQ(core_.table.count(EntryState::kReady), 0u);
}

TEST_F(HandOutTest, AFrameIsBoundedInBytesToo) {
  Attach(one_);
  const std::string payload(900, 'p');
  for (int i = 0; i < 3; ++i) {
    storage::MessageRecord record;
    record.payload = payload;
    DeliveryWorld::Ready(one_, Put(record));
  }
  Step();
  ASSERT_EQ(effects_.frames.size(), 2u);
  EXPECT_EQ(effects_.frames.front().deliveries.size(), 2u);
}

TEST_F(HandOutTest, AStreamWithoutCreditIsNotAvailable) {
  Stream* const stream = Attach(one_, kStream, /*messages=*/2);
  Ready(3, one_);
  EXPECT_FALSE(Step()) << "without credit there is nothing to do";
  EXPECT_EQ(DeliveredTo(kStream), 2u);
  EXPECT_FALSE(stream->available);
  EXPECT_EQ(one_->ready.count, 1u);
  core_.streams.ReturnCredit(kStream, 1, 0);
  core_.streams.MakeAvailable(stream);
  Step();
  EXPECT_EQ(DeliveredTo(kStream), 3u);
}

TEST_F(HandOutTest, AStreamThatSendsNothingGetsNoMore) {
  Stream* const stream = Attach(one_);
  stream->credit = std::make_shared<protocol::StreamCredit>(100, 1'000'000, /*unsent_max=*/1);
  Ready(2 * kFrameMax, one_);
  EXPECT_FALSE(Step()) << "without room there is nothing to do";
  ASSERT_EQ(effects_.frames.size(), 1u);
  EXPECT_FALSE(stream->available);
  EXPECT_EQ(one_->ready.count, kFrameMax);
  uint64_t bytes = 0;
  for (const auto& delivery : effects_.frames[0].deliveries) bytes += delivery.record.size();
  EXPECT_EQ(stream->credit->Sent(bytes), uint64_t{1} << 0) << "the shard is woken";
  core_.streams.MakeAvailable(stream);
  Step();
  EXPECT_EQ(DeliveredTo(kStream), 2 * kFrameMax);
}

TEST_F(HandOutTest, APullWithoutRoomForItsAnswerIsRefused) {
  const auto budget = std::make_shared<protocol::AnswerBudget>(1);
  Attach(one_)->budget = budget;
  Attach(one_, kOtherStream)->budget = budget;
  Ready(4, one_);
  EXPECT_FALSE(Step());
  // The first takes its half. Then there is no room, neither for the other nor for more.
  ASSERT_EQ(effects_.frames.size(), 3u);
  ASSERT_EQ(effects_.frames[0].deliveries.size(), 2u);
  EXPECT_EQ(budget->bytes(), effects_.frames[0].deliveries[0].record.size() +
                                 effects_.frames[0].deliveries[1].record.size());
  EXPECT_EQ(effects_.frames[1].stream, kOtherStream);
  for (const size_t refused : {size_t{1}, size_t{2}}) {
    EXPECT_TRUE(effects_.frames[refused].deliveries.empty());
    EXPECT_TRUE(absl::IsResourceExhausted(effects_.frames[refused].status));
  }
  EXPECT_EQ(one_->ready.count, 2u) << "no message was taken for a refused Pull";
  effects_.frames.clear();
  EXPECT_EQ(budget->bytes(), 0u);
  core_.streams.MakeAvailable(core_.streams.Get(kOtherStream));
  Step();
  EXPECT_EQ(DeliveredTo(kOtherStream), 2u);
}

TEST_F(HandOutTest, StreamsShareABurst) {
  Attach(one_);
  Attach(one_, kOtherStream);
  Ready(4, one_);
  Step();
  ASSERT_GE(effects_.frames.size(), 2u);
  EXPECT_EQ(effects_.frames[0].deliveries.size(), 2u) << "half of what is ready";
  EXPECT_EQ(effects_.frames[1].stream, kOtherStream);
}

TEST_F(HandOutTest, ASmallBudgetIsSharedBySubscriptionsInTurn) {
  Subscription* const other = AddSubscription();
  Attach(one_);
  Attach(other, kOtherStream);
  Ready(kFrameMax + 1, one_);
  Ready(1, other);
  EXPECT_TRUE(Step(/*budget=*/1));
  EXPECT_EQ(DeliveredTo(kStream), kFrameMax);
  EXPECT_EQ(DeliveredTo(kOtherStream), 0u);
  EXPECT_TRUE(Step(/*budget=*/1));
  EXPECT_EQ(DeliveredTo(kOtherStream), 1u) << "before the rest of the first subscription";
}

// ---- Messages that are not for delivery

// Each keeps its message from the stream, and costs no credit.
class NotForDeliveryTest : public HandOutTest {
 protected:
  // Steps, and checks that the stream got nothing and has all of its credit.
  void ExpectNothing() {
    Step();
    EXPECT_TRUE(effects_.frames.empty());
    EXPECT_EQ(stream_->credit->messages(), 0);
    EXPECT_EQ(stream_->credit->bytes(), 0);
    EXPECT_EQ(one_->delivered, 0u);
  }

  Stream* const stream_ = Attach(one_);
};

TEST_F(NotForDeliveryTest, AStaleOffer) {
  const storage::MessageRef message = Put();
  const EntryIndex index = core_.table.Insert(message.key, one_);
  core_.states.MakeReady(index);
  writer_.Erase(message.key, kTopic, message.bytes, storage::Durability::kBuffered);
  Commit();
  ExpectNothing();
  EXPECT_EQ(core_.table.size(), 0u);
}

TEST_F(NotForDeliveryTest, AnExpiredMessage) {
  storage::MessageRecord record;
  record.ttl_ms = 10;
  record.late_policy = storage::LatePolicy::kDrop;
  const storage::MessageRef message = Put(record);
  DeliveryWorld::Ready(one_, message);
  Pass(11);
  ExpectNothing();
  EXPECT_EQ(stats_.expired, 0u) << "not before the commit";
  Commit();
  EXPECT_EQ(stats_.expired, 1u);
  EXPECT_FALSE(Stored(message.key));
}

TEST_F(NotForDeliveryTest, AMessageBeyondItsRetention) {
  one_->state.settings.set_retention_ms(10);
  const storage::MessageRef message = Put();
  DeliveryWorld::Ready(one_, message);
  Pass(11);
  ExpectNothing();
  Commit();
  EXPECT_FALSE(Stored(message.key));
}

TEST_F(NotForDeliveryTest, AMessageWithoutAttemptsLeft) {
  one_->state.settings.mutable_retry()->set_max_attempts(2);
  one_->topic->dead_letter = kDeadLetters;
  const storage::MessageRef message = Put();
  const EntryIndex index = DeliveryWorld::Ready(one_, message);
  At(index).attempts = 2;
  At(index).half_failures = 4;
  ExpectNothing();
  Commit();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_EQ(stats_.dead_lettered, 1u);
}

TEST_F(HandOutTest, TheNextMessageOfAnOrderingKeyWaits) {
  Stream* const stream = Attach(one_);
  storage::MessageRecord record;
  record.ordering_key = "k";
  const EntryIndex first = DeliveryWorld::Ready(one_, Put(record));
  const EntryIndex second = DeliveryWorld::Ready(one_, Put(record));
  Step();
  EXPECT_EQ(At(first).state, EntryState::kInFlight);
  EXPECT_EQ(At(second).state, EntryState::kBlocked);
  EXPECT_EQ(DeliveredTo(kStream), 1u);
  EXPECT_EQ(stream->credit->messages(), 1) << "only the first takes credit";
}

}  // namespace
}  // namespace duetime::delivery
