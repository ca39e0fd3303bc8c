// SPDX-License-Identifier: Apache-2.0
#include "server/messages/change_commands.h"

#include "server/base/error.h"
#include "server/protocol/etag.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using protocol::MessageState;
using protocol::Outcome;
using storage::MessageId;

class ChangeCommandsTest : public MessagesFixture {
 protected:
  static constexpr storage::SubscriptionId kOther{(uint32_t{1} << 31) + 1};

  void CreateOther() {
    protocol::SubscriptionCommand create;
    create.kind = protocol::SubscriptionCommand::Kind::kCreate;
    create.state.id = kOther;
    create.state.topic = kTopic;
    create.state.name = "other";
    create.from_now = true;
    p_.changes->Change(now_, std::move(create));
  }
  protocol::RescheduleReply Reschedule(const protocol::Target& target, uint64_t deliver_ms,
                                       std::optional<uint64_t> etag = std::nullopt) {
    protocol::RescheduleCommand command;
    command.target = target;
    command.deliver_ms = deliver_ms;
    command.etag = etag;
    commands_.change.Reschedule(now_, std::move(command));
    Commit();
    return Last(&answers().reschedules);
  }
};

TEST_F(ChangeCommandsTest, CancelsAndSaysSoOnlyAfterTheCommit) {
  const MessageId id = Scheduled();
  commands_.change.Cancel(now_, {.target = ById(id)});
  EXPECT_TRUE(answers().cancels.empty());
  Commit();
  const protocol::CancelReply reply = Last(&answers().cancels);
  EXPECT_EQ(reply.outcome, Outcome::kDone);
  EXPECT_EQ(reply.id, id);
  EXPECT_FALSE(reply.redelivery_stopped);
  const protocol::CancelReply again = Cancel(ById(id));
  EXPECT_EQ(again.outcome, Outcome::kAlreadyCancelled);
  EXPECT_EQ(again.end_ms, kStart);
  EXPECT_EQ(Cancel(ById({})).outcome, Outcome::kNotFound);
}

TEST_F(ChangeCommandsTest, ACancelOfAYoungMessageReadsNothing) {
  storage::Tombstone ends[2];
  for (const bool young : {false, true}) {
    const MessageId id = Schedule(Message("payload", 1'000)).id;
    if (!young) writer_.recent().Forget(id);
    if (young) store_.FailReads(absl::InternalError("a read"));
    EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kDone);
    store_.FailReads(absl::OkStatus());
    EXPECT_EQ(stats_.cancelled_unread, young ? 1u : 0u);
    EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kAlreadyCancelled);
    ends[young] = *(*store_.GetLocator(0, id))->tombstone;
  }
  EXPECT_EQ(ends[0], ends[1]);
}

TEST_F(ChangeCommandsTest, ACancelReadsWhatMayNotBeAsItWasAccepted) {
  const auto keyed = Keyed();
  protocol::NewMessage late = Message("late", 0);
  late.deliver_ms = now_.wall_ms - 1;
  const MessageId moved = Schedule(Message("moved", 1'000)).id;
  Reschedule(ById(moved), now_.wall_ms + 9'000);
  for (const MessageId& id :
       {Schedule(Message("keyed", 1'000, &keyed)).id, Schedule(std::move(late)).id, moved}) {
    EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kDone);
  }
  EXPECT_EQ(stats_.cancelled_unread, 0u);
}

// The store has a batch, and the engine does not know yet: whoever reads the store may end or move
// its messages.
class InTheStoreTest : public ChangeCommandsTest {
 protected:
  MessageId SendAndAppend() {
    Schedule(Message("another", 60'000));
    Send(Message("p", 60'000));
    batch_ = writes_.Take();
    EXPECT_EQ(store_.Append(std::span(&batch_->records, 1), batch_->durability),
              storage::AppendOutcome::kAccepted);
    storage::Page<storage::MessageRef> page;
    EXPECT_TRUE(
        store_.Scan(0, {}, storage::MessageKey::FirstAt(MessageId::kDueMax), {}, &page).ok());
    return page.items.back().key.id;
  }
  void Complete() {
    writes_.Complete(now_, batch_->sequence, true);
    Commit();
  }

 private:
  std::optional<scheduler::PendingWrites::Batch> batch_;
};

TEST_F(InTheStoreTest, AMessageThatWasMovedIsCancelledWhereItIs) {
  const MessageId id = SendAndAppend();
  ASSERT_TRUE(*bulk_.Move(now_, id, kStart + 90'000, kStart));
  Complete();
  EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kDone);
  EXPECT_FALSE(store_.Get(0, {.due_ms = kStart + 90'000, .id = id})->has_value());
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
}

TEST_F(InTheStoreTest, AMessageThatWasEndedIsNotEndedAgain) {
  for (const bool by_bulk : {false, true}) {
    const MessageId id = SendAndAppend();
    const int64_t pending = *writer_.Pending(kTopic);
    if (by_bulk) {
      ASSERT_TRUE(*bulk_.Cancel(now_, id, /*stop_redelivery=*/true));
    } else {
      commands_.change.Cancel(now_, {.target = ById(id)});
    }
    Complete();
    if (!by_bulk) {
      EXPECT_EQ(Last(&answers().cancels).outcome, Outcome::kDone);
    }
    EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kAlreadyCancelled);
    EXPECT_EQ(*writer_.Pending(kTopic), pending - 1);
  }
}

TEST_F(ChangeCommandsTest, ASecondCancelWaitsForTheFirst) {
  const MessageId id = Scheduled();
  commands_.change.Cancel(now_, {.position = 0, .target = ById(id)});
  commands_.change.Cancel(now_, {.position = 1, .target = ById(id)});
  EXPECT_EQ(key_locks_.waiting(), 1u);
  Commit();
  ASSERT_EQ(answers().cancels.size(), 2u);
  for (const protocol::CancelReply& reply : answers().cancels) {
    EXPECT_EQ(reply.outcome, reply.position == 0 ? Outcome::kDone : Outcome::kAlreadyCancelled);
  }
}

TEST_F(ChangeCommandsTest, AMessageInFlightIsLeftUnlessItsRedeliveryStops) {
  const MessageId id = Scheduled(100);
  ASSERT_EQ(Deliver(200).size(), 1u);
  protocol::CancelReply reply = Cancel(ById(id));
  EXPECT_EQ(reply.outcome, Outcome::kInFlight);
  EXPECT_EQ(reply.state, MessageState::kInFlight);
  EXPECT_FALSE(reply.redelivery_stopped);
  EXPECT_EQ(Reschedule(ById(id), kStart + 90'000).outcome, Outcome::kInFlight);
  reply = Cancel(ById(id), /*stop_redelivery=*/true);
  EXPECT_EQ(reply.outcome, Outcome::kInFlight);
  EXPECT_TRUE(reply.redelivery_stopped);
  EXPECT_EQ(Cancel(ById(id)).outcome, Outcome::kAlreadyCancelled);
}

TEST_F(ChangeCommandsTest, AnAckedMessageIsSettled) {
  const MessageId id = Scheduled(100);
  Ack(Deliver(200).at(0));
  // The cancel waits until the settlement is committed.
  commands_.change.Cancel(now_, {.target = ById(id)});
  EXPECT_TRUE(answers().cancels.empty());
  Commit();
  const protocol::CancelReply reply = Last(&answers().cancels);
  EXPECT_EQ(reply.outcome, Outcome::kSettled);
  EXPECT_EQ(reply.state, MessageState::kAcked);
  EXPECT_EQ(Reschedule(ById(id), kStart + 90'000).outcome, Outcome::kSettled);
}

// The cancel is tried again while another settlement of the same batch is not complete.
TEST_F(ChangeCommandsTest, ACancelWaitsForAllSettlementsOfABatch) {
  CreateOther();
  Attach(protocol::StreamId{2}, kOther);
  const MessageId id = Scheduled(100);
  const auto tokens = Deliver(200);
  ASSERT_EQ(tokens.size(), 2u);
  Ack(tokens[0]);
  commands_.change.Cancel(now_, {.target = ById(id)});
  Ack(tokens[1]);
  Commit();
  EXPECT_EQ(Last(&answers().cancels).outcome, Outcome::kSettled);
}

// Memory has no entry of the subscription that settled the message. Only the row shows that it did.
TEST_F(ChangeCommandsTest, ACancelRemovesTheRowOfASubscriptionThatHasSettledTheMessage) {
  CreateOther();
  const MessageId id = Scheduled(100);
  const storage::MessageKey key = {.due_ms = id.due_ms(), .id = id};
  Ack(Deliver(200).at(0));
  Commit();
  ASSERT_FALSE(core_.reader.Progress(key)->empty());
  EXPECT_EQ(Cancel(ById(id), /*stop_redelivery=*/true).outcome, Outcome::kInFlight);
  EXPECT_TRUE(core_.reader.Progress(key)->empty());
}

TEST_F(ChangeCommandsTest, AMoveToTheSameTimeIsAnsweredBeforeTheMessageCanBeDelivered) {
  const MessageId id = Scheduled(60'000);
  Send(Message("other", 60'000));  // a batch that is not committed yet
  protocol::RescheduleCommand command;
  command.target = ById(id);
  command.deliver_ms = kStart + 60'000;
  commands_.change.Reschedule(now_, std::move(command));
  EXPECT_EQ(Last(&answers().reschedules).outcome, Outcome::kDone);
  Commit();
}

TEST_F(ChangeCommandsTest, ReschedulesTheVersionThatTheCallerKnows) {
  const MessageId id = Scheduled(60'000);
  const uint64_t first = protocol::EtagOf(id, 0);
  const uint64_t second = protocol::EtagOf(id, 1);
  protocol::RescheduleReply reply = Reschedule(ById(id), kStart + 90'000, first);
  EXPECT_EQ(reply.outcome, Outcome::kDone);
  EXPECT_EQ(reply.old_deliver_ms, kStart + 60'000);
  EXPECT_GT(reply.bytes, reply.head.size());
  reply = Reschedule(ById(id), kStart + 95'000, first);
  EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "ETAG_MISMATCH");
  // A reschedule to the same time changes nothing.
  reply = Reschedule(ById(id), kStart + 90'000, second);
  EXPECT_EQ(reply.outcome, Outcome::kDone);
  EXPECT_EQ(stats_.rescheduled, 1u);
  EXPECT_EQ(Reschedule(ById(id), 5, second).state, MessageState::kDue);
  EXPECT_EQ(Reschedule(ById({}), 5).outcome, Outcome::kNotFound);
}

TEST_F(ChangeCommandsTest, AnEarlierMessageWithTheKeyHasOtherEtags) {
  protocol::ScheduleOptions options;
  options.key = "k";
  options.on_conflict = protocol::OnConflict::kReplace;
  const MessageId first = Schedule(Message("one", 60'000, &options)).id;
  EXPECT_EQ(Cancel(ByKey("k")).outcome, Outcome::kDone);
  const MessageId second = Schedule(Message("two", 60'000, &options)).id;
  ASSERT_NE(first, second);
  // Both messages have the revision 0.
  const auto reply = Reschedule(ByKey("k"), kStart + 90'000, protocol::EtagOf(first, 0));
  EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "ETAG_MISMATCH");
  EXPECT_EQ(Reschedule(ByKey("k"), kStart + 90'000, protocol::EtagOf(second, 0)).outcome,
            Outcome::kDone);
}

TEST_F(ChangeCommandsTest, AFailedCommitFailsTheCallAndThoseThatWait) {
  const MessageId id = Scheduled();
  commands_.change.Cancel(now_, {.target = ById(id)});
  commands_.change.Cancel(now_, {.target = ById(id)});
  protocol::RescheduleCommand reschedule;
  reschedule.target = ById(id);
  commands_.change.Reschedule(now_, std::move(reschedule));
  Commit(/*accepted=*/false);
  ASSERT_EQ(answers().cancels.size(), 2u);
  for (const protocol::CancelReply& reply : answers().cancels) {
    EXPECT_EQ(base::GetErrorDetail(reply.status)->reason, "STORAGE_FAILED");
  }
  EXPECT_FALSE(Last(&answers().reschedules).status.ok());
}

TEST_F(ChangeCommandsTest, AReadErrorFailsTheCall) {
  const MessageId id = Scheduled();
  writer_.recent().Forget(id);
  store_.FailReads(absl::DataLossError("disk"));
  EXPECT_EQ(base::GetErrorDetail(Cancel(ById(id)).status)->reason, "STORAGE_FAILED");
  EXPECT_FALSE(core_.reader.status().ok());
}

}  // namespace
}  // namespace duetime::messages
