// SPDX-License-Identifier: Apache-2.0
#include "server/messages/bulk_changes.h"

#include "server/delivery/dead_letter.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using storage::MessageId;

constexpr storage::TopicId kDeadLetters{2};

class BulkChangesTest : public MessagesFixture {
 protected:
  MessageId DeadLetter(uint64_t delay_ms = 60'000) {
    const auto bytes = delivery::MakeDeadLetter(
        Message("p", 0).record, kDeadLetters, now_.wall_ms,
        {.topic_name = "orders", .id = MessageId::Make(1, 9, 0, kStart), .attempts = 3});
    EXPECT_TRUE(bytes.ok());
    storage::MessageRecord record;
    EXPECT_TRUE(storage::DecodeMessageRecord(*bytes, &record).ok());
    record.header.deliver_ms += delay_ms;
    return Schedule(protocol::MakeNewMessage(record, 0)).id;
  }
};

TEST_F(BulkChangesTest, ChangesOnlyWhatIsPending) {
  const MessageId id = Scheduled();
  EXPECT_FALSE(*bulk_.Cancel(now_, {}, true));
  EXPECT_FALSE(*bulk_.Redrive(now_, id));  // not a dead letter
  EXPECT_TRUE(*bulk_.Cancel(now_, id, false));
  Commit();
  EXPECT_FALSE(*bulk_.Cancel(now_, id, true));
  EXPECT_FALSE(*bulk_.Move(now_, id, kStart, 0));
  EXPECT_FALSE(*bulk_.Redrive(now_, id));
  EXPECT_FALSE(Commit());
}

TEST_F(BulkChangesTest, LeavesAMessageInFlightUnlessItsRedeliveryStops) {
  const MessageId id = Scheduled(100);
  ASSERT_EQ(Deliver(200).size(), 1u);
  EXPECT_FALSE(*bulk_.Move(now_, id, kStart, 0));
  EXPECT_FALSE(*bulk_.Cancel(now_, id, false));
  EXPECT_TRUE(*bulk_.Cancel(now_, id, true));
  Commit();
}

TEST_F(BulkChangesTest, AMoveCountsAsMadeNoEarlierThanItIsTold) {
  const MessageId id = Scheduled();
  ASSERT_TRUE(*bulk_.Move(now_, id, kStart + 1, kStart + 7));
  Commit();
  FoundMessage found;
  ASSERT_TRUE(finder_.Find(now_, id, &found).ok());
  ASSERT_TRUE(finder_.Examine(now_, &found).ok());
  EXPECT_EQ(found.record.update_ms, kStart + 7);
  EXPECT_EQ(found.record.header.deliver_ms, kStart + 1);
}

TEST_F(BulkChangesTest, ADeadLetterGoesBackToItsTopic) {
  const MessageId id = DeadLetter();
  auto quota = std::make_shared<protocol::TopicQuota>();
  quota->max = 1;
  ASSERT_TRUE(writer_.SetQuota(kTopic, quota).ok());
  const MessageId other = Scheduled(50'000);
  EXPECT_FALSE(*bulk_.Redrive(now_, id));  // the topic is full
  ASSERT_TRUE(*bulk_.Cancel(now_, other, false));
  EXPECT_TRUE(*bulk_.Redrive(now_, id));
  Commit();
  EXPECT_EQ(Get(id).state, protocol::MessageState::kCancelled);
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
  EXPECT_EQ(*writer_.Pending(kDeadLetters), 0);
  EXPECT_EQ(Deliver(1).size(), 1u);
}

TEST_F(BulkChangesTest, ARedrivenDeadLetterSaysWhetherItWasDelivered) {
  for (const bool delivered : {true, false}) {
    const MessageId id = DeadLetter(100);
    if (delivered) {
      Attach(protocol::StreamId{2}, storage::FirstSubscription(kDeadLetters), kDeadLetters);
      const auto tokens = Deliver(200);
      ASSERT_EQ(tokens.size(), 1u);
      protocol::SettleCommand nack{
          .stream = protocol::StreamId{2}, .acks = {}, .nacks = {}, .extends = {}};
      nack.nacks.push_back({.token = tokens[0], .delay_ms = 1'000, .reason = ""});
      dispatcher_.Settle(now_, std::move(nack));
      Commit();
    }
    EXPECT_TRUE(*bulk_.Redrive(now_, id));
    Commit();
    const protocol::CancelReply reply = Cancel(ById(id));
    EXPECT_EQ(reply.outcome, protocol::Outcome::kAlreadyCancelled);
    EXPECT_EQ(reply.redelivery_stopped, delivered);
  }
}

TEST_F(BulkChangesTest, AReadErrorIsReturned) {
  const MessageId id = Scheduled();
  store_.FailReads(absl::DataLossError("disk"));
  EXPECT_FALSE(bulk_.Cancel(now_, id, false).ok());
  EXPECT_FALSE(bulk_.Move(now_, id, kStart, 0).ok());
  EXPECT_FALSE(bulk_.Redrive(now_, id).ok());
}

}  // namespace
}  // namespace duetime::messages
