// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_finder.h"

#include <memory>

#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/protocol/topic_scope.h"
#include "tests/unit/messages/messages_fixture.h"

namespace duetime::messages {
namespace {

using storage::MessageId;
using Kind = FoundMessage::Kind;

class MessageFinderTest : public MessagesFixture {
 protected:
  void Find(const MessageId& id, Kind kind) {
    found_ = std::make_unique<FoundMessage>();
    ASSERT_TRUE(finder_.Find(now_, id, found_.get()).ok());
    EXPECT_EQ(found_->kind, kind);
  }
  std::unique_ptr<FoundMessage> found_;
};

TEST_F(MessageFinderTest, AnIdThatWasNeverGivenIsUnknown) {
  Find(MessageId{}, Kind::kUnknown);
  Find(MessageId::Make(scheduler_.epoch(), 77, 0, kStart), Kind::kUnknown);
  Find(MessageId::Make(scheduler_.epoch() + 1, 1, 0, kStart), Kind::kUnknown);
}

TEST_F(MessageFinderTest, FindsAPendingMessageAtItsPlace) {
  const MessageId id = Scheduled();
  Find(id, Kind::kPending);
  ASSERT_TRUE(finder_.Examine(now_, found_.get()).ok());
  EXPECT_EQ(found_->record.payload, "p");
  EXPECT_TRUE(found_->delivery.untouched());
  EXPECT_EQ(found_->delivery.state, protocol::MessageState::kScheduled);
}

TEST_F(MessageFinderTest, FollowsTheLocatorOfAMovedMessage) {
  const MessageId id = Scheduled();
  ASSERT_TRUE(*bulk_.Move(now_, id, kStart + 90'000, 0));
  Commit();
  Find(id, Kind::kPending);
  EXPECT_EQ(found_->key.due_ms, kStart + 90'000);
}

TEST_F(MessageFinderTest, FindsATombstoneUntilItExpires) {
  const MessageId id = Scheduled();
  ASSERT_TRUE(*bulk_.Cancel(now_, id, false));
  Commit();
  Find(id, Kind::kEnded);
  EXPECT_EQ(found_->tombstone.state, storage::EndState::kCancelled);
  now_.wall_ms = found_->tombstone.expire_ms;
  Find(id, Kind::kUnknown);
}

TEST_F(MessageFinderTest, ADeliveredMessageIsInFlight) {
  const MessageId id = Scheduled(100);
  ASSERT_EQ(Deliver(200).size(), 1u);
  Find(id, Kind::kPending);
  ASSERT_TRUE(finder_.Examine(now_, found_.get()).ok());
  EXPECT_EQ(found_->delivery.state, protocol::MessageState::kInFlight);
  EXPECT_EQ(found_->delivery.attempts, 1u);
  EXPECT_FALSE(found_->delivery.untouched());
}

TEST_F(MessageFinderTest, ResolvesATarget) {
  protocol::ScheduleOptions options;
  options.key = "a";
  Send(Message("p", 60'000, &options));
  // The schedule with this key is not committed yet.
  auto target = finder_.Resolve(now_, ByKey("a"));
  ASSERT_TRUE(target.ok());
  EXPECT_TRUE(target->wait_for == MessageLocks::KeyName(kTopic, "a"));
  Commit();
  const MessageId id = LastAccepted().id;
  EXPECT_EQ(finder_.Resolve(now_, ByKey("a"))->id, id);
  EXPECT_EQ(finder_.Resolve(now_, ById(id))->id, id);
  EXPECT_EQ(finder_.Resolve(now_, ByKey("b"))->id, MessageId{});
  // The message itself is changing.
  ASSERT_TRUE(*bulk_.Cancel(now_, id, false));
  EXPECT_TRUE(finder_.Resolve(now_, ByKey("a"))->wait_for == MessageLocks::Name(id));
  // The number of waiting commands is at its limit.
  for (size_t i = 0; i < limits_.waiting_max; ++i) {
    locks_.Wait(MessageLocks::Name(id), [](base::Now, bool) {});
  }
  const delivery::Core core = WithLimits();
  MessageLocks locks(core, p_.ends);
  MessageFinder finder(core, p_.status, &locks, &index_);
  target = finder.Resolve(now_, ById(id));
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(base::GetErrorDetail(target.status())->reason, "OVERLOADED");
  Commit();
}

TEST_F(MessageFinderTest, AReadErrorFailsTheShard) {
  const absl::Status status = finder_.ReadFailed(absl::DataLossError("disk"));
  EXPECT_EQ(base::GetErrorDetail(status)->reason, "STORAGE_FAILED");
  EXPECT_FALSE(core_.reader.status().ok());
}

// Damage concerns one message: the call is refused, nothing is decided, and the shard goes on.
TEST_F(MessageFinderTest, ADamagedMessageIsNotAbsent) {
  const MessageId id = Scheduled();
  const MessageId other = Scheduled();
  writer_.recent().Forget(id);
  disk_.Damage(0, {.due_ms = id.due_ms(), .id = id});
  const protocol::CancelReply refused = Cancel(ById(id));
  EXPECT_EQ(base::GetErrorDetail(refused.status)->reason, "CHECKSUM_MISMATCH");
  EXPECT_FALSE(*bulk_.Cancel(now_, id, false));
  EXPECT_TRUE(core_.reader.status().ok());
  EXPECT_EQ(Cancel(ById(other)).outcome, protocol::Outcome::kDone);
}

class AllTopics : public protocol::TopicScope {
  bool Covers(storage::TopicId) const override { return true; }
};

// As a damaged block does not, whoever asks.
TEST_F(MessageFinderTest, ARecordThatCannotBeDecodedDoesNotStopTheShard) {
  const MessageId id = Scheduled();
  writer_.recent().Forget(id);
  scheduler_.Put(now_, {.key = {.due_ms = id.due_ms(), .id = id}, .topic = kTopic, .bytes = 1},
                 "?");
  Commit();
  for (const bool scoped : {false, true}) {
    protocol::Target target = ById(id);
    if (scoped) target.scope = std::make_shared<AllTopics>();
    EXPECT_TRUE(absl::IsDataLoss(Cancel(target).status)) << scoped;
    commands_.queries.Get(now_, {.tag = {}, .target = target});
    EXPECT_TRUE(absl::IsDataLoss(Last(&answers().gets).status)) << scoped;
    EXPECT_FALSE(*bulk_.Cancel(now_, id, false));
    EXPECT_TRUE(core_.reader.status().ok()) << scoped;
  }
}

TEST_F(MessageFinderTest, AnErrorInTheMiddleOfAChangeFailsTheShard) {
  const absl::Status status = finder_.StopShard(storage::DamageError({}));
  EXPECT_EQ(base::GetErrorDetail(status)->reason, "STORAGE_FAILED");
  EXPECT_FALSE(core_.reader.status().ok());
}

}  // namespace
}  // namespace duetime::messages
