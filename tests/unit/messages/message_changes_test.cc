// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_changes.h"

#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using storage::EndState;
using storage::MessageId;

class MessageChangesTest : public MessagesFixture {
 protected:
  // Finds and examines a pending message.
  void Find(const MessageId& id) {
    found_ = std::make_unique<FoundMessage>();
    ASSERT_TRUE(finder_.Find(now_, id, found_.get()).ok());
    ASSERT_TRUE(finder_.Examine(now_, found_.get()).ok());
  }
  std::unique_ptr<FoundMessage> found_;
};

TEST_F(MessageChangesTest, AnEndLocksTheMessageUntilItIsCommitted) {
  const MessageId id = Scheduled();
  Find(id);
  ASSERT_TRUE(changes_.End(now_, *found_, EndState::kDropped, false).ok());
  EXPECT_TRUE(locks_.ChangeInFlight(id));
  EXPECT_DEATH((void)changes_.End(now_, *found_, EndState::kDropped, false), "try_emplace");
  Commit();
  EXPECT_FALSE(locks_.ChangeInFlight(id));
  EXPECT_EQ(Get(id).state, protocol::MessageState::kDropped);
  EXPECT_EQ(stats_.cancelled, 0u);
}

TEST_F(MessageChangesTest, ACancelledMessageIsNotDelivered) {
  const MessageId id = Scheduled(100);
  Find(id);
  ASSERT_TRUE(changes_.Cancel(now_, *found_, false).ok());
  EXPECT_TRUE(Deliver(200).empty());
  EXPECT_EQ(Get(id).state, protocol::MessageState::kCancelled);
  EXPECT_EQ(stats_.cancelled, 1u);
  EXPECT_TRUE(cancelled_occurrences_.empty());
}

TEST_F(MessageChangesTest, AMessageInFlightIsNotCancelled) {
  const MessageId id = Scheduled(100);
  ASSERT_EQ(Deliver(200).size(), 1u);
  Find(id);
  EXPECT_DEATH((void)changes_.Cancel(now_, *found_, false), "untouched");
  EXPECT_DEATH((void)changes_.Move(now_, *found_, MessageRevision(found_->record, kStart)),
               "untouched");
  // The cancel stops redelivery, and the tombstone has the number of deliveries.
  ASSERT_TRUE(changes_.Cancel(now_, *found_, true).ok());
  Commit();
  const protocol::GetReply reply = Get(id);
  ASSERT_TRUE(reply.tombstone.has_value());
  EXPECT_TRUE(reply.tombstone->redelivery_stopped);
  EXPECT_EQ(reply.attempts, 1u);
}

TEST_F(MessageChangesTest, TheRecurrenceOfACancelledOccurrenceIsTold) {
  storage::MessageRecord record;
  record.header = {.topic = kTopic, .deliver_ms = kStart + 60'000, .accept_ms = kStart};
  record.recurrence = "daily";
  record.occurrence = 1;
  const MessageId id = Schedule(protocol::MakeNewMessage(record, 0)).id;
  Find(id);
  ASSERT_TRUE(changes_.Cancel(now_, *found_, false).ok());
  EXPECT_EQ(cancelled_occurrences_, std::vector<MessageId>{id});
  Commit();
}

TEST_F(MessageChangesTest, AMovedMessageKeepsItsIdAndIsDeliveredOnce) {
  const MessageId id = Scheduled(5'000);
  Find(id);
  storage::MessageRecord record = found_->record;
  record.header.deliver_ms = kStart + 100;
  ASSERT_TRUE(changes_.Move(now_, *found_, MessageRevision(record, kStart + 1)).ok());
  Commit();
  EXPECT_EQ(stats_.rescheduled, 1u);
  Find(id);
  EXPECT_EQ(found_->key.due_ms, kStart + 100);
  EXPECT_EQ(found_->record.revision, 1u);
  EXPECT_EQ(found_->record.update_ms, kStart + 1);
  EXPECT_EQ(Deliver(200).size(), 1u);
  EXPECT_TRUE(Deliver(6'000).empty());
}

TEST_F(MessageChangesTest, AChangeThatIsNotCommittedUnlocks) {
  const MessageId id = Scheduled();
  Find(id);
  ASSERT_TRUE(changes_.Cancel(now_, *found_, false).ok());
  Commit(/*accepted=*/false);
  EXPECT_FALSE(locks_.ChangeInFlight(id));
  EXPECT_EQ(stats_.cancelled, 0u);
}

}  // namespace
}  // namespace duetime::messages
