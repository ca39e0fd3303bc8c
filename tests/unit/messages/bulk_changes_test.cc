// SPDX-License-Identifier: Apache-2.0
#include "server/messages/bulk_changes.h"

#include <map>
#include <string>

#include "server/delivery/endings/dead_letter.h"
#include "tests/support/settles.h"
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
  // A dead letter of a message with the key "k".
  MessageId KeyedDeadLetter(const MessageId& origin) {
    const auto bytes =
        delivery::MakeDeadLetter(Message("p", 0, &keyed_).record, kDeadLetters, now_.wall_ms,
                                 {.topic_name = "orders", .id = origin, .attempts = 3});
    storage::MessageRecord record;
    EXPECT_TRUE(storage::DecodeMessageRecord(*bytes, &record).ok());
    record.header.deliver_ms += 60'000;
    return Schedule(protocol::MakeNewMessage(record, 0)).id;
  }
  bool Redriven(const MessageId& id) {
    return *bulk_.Redrive(now_, id) == BulkChanges::Redriven::kYes;
  }
  // Nothing shows that the key is free, and the shard goes on.
  void ExpectRedrivenWithoutKey(const MessageId& id) {
    EXPECT_TRUE(Redriven(id));
    EXPECT_FALSE(locks_.Locked(MessageLocks::KeyName(kTopic, "k")));
    Commit();
    EXPECT_EQ(Get(id).state, protocol::MessageState::kCancelled);
    EXPECT_TRUE(core_.reader.status().ok());
  }
  MessageId Owner() { return finder_.Resolve(now_, ByKey("k"))->id; }

  const protocol::ScheduleOptions keyed_ = {.key = "k", .request_id = "", .content = {}};
};

TEST_F(BulkChangesTest, ChangesOnlyWhatIsPending) {
  const MessageId id = Scheduled();
  EXPECT_FALSE(*bulk_.Cancel(now_, {}, true));
  EXPECT_FALSE(Redriven(id));  // not a dead letter
  EXPECT_TRUE(*bulk_.Cancel(now_, id, false));
  Commit();
  EXPECT_FALSE(*bulk_.Cancel(now_, id, true));
  EXPECT_FALSE(*bulk_.Move(now_, id, kStart, 0));
  EXPECT_FALSE(Redriven(id));
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
  EXPECT_FALSE(Redriven(id));  // the topic is full
  ASSERT_TRUE(*bulk_.Cancel(now_, other, false));
  EXPECT_TRUE(Redriven(id));
  Commit();
  EXPECT_EQ(Get(id).state, protocol::MessageState::kCancelled);
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
  EXPECT_EQ(*writer_.Pending(kDeadLetters), 0);
  EXPECT_EQ(Deliver(1).size(), 1u);
}

// After its deletion, the origin's number can belong to another topic.
TEST_F(BulkChangesTest, ADeadLetterGoesToTheTopicThatHasTheNameNow) {
  const storage::TopicId other{7};
  struct Case {
    std::map<std::string, storage::TopicId, std::less<>> numbers;
    bool ends_first = false;
    // 0: the dead letter stays.
    storage::TopicId redriven_to{};
  };
  for (const Case& test : {Case{{{"orders", kTopic}}, false, kTopic},
                           Case{{{"orders", other}, {"others", kTopic}}, false, other},
                           Case{{{"others", kTopic}}, false, {}}, Case{{}, false, {}},
                           Case{{{"orders", kTopic}}, true, {}}}) {
    names_.numbers = test.numbers;
    names_.ends_first = test.ends_first;
    const MessageId origin = MessageId::Make(1, 9, 0, kStart);
    for (const MessageId id : {DeadLetter(), KeyedDeadLetter(origin)}) {
      const std::map<storage::TopicId, int64_t> before = {{kTopic, *writer_.Pending(kTopic)},
                                                          {other, *writer_.Pending(other)}};
      const bool changed = Redriven(id);
      EXPECT_EQ(changed, test.redriven_to != storage::TopicId{});
      EXPECT_EQ(Commit(), changed);
      for (const auto& [topic, pending] : before) {
        EXPECT_EQ(*writer_.Pending(topic), pending + (topic == test.redriven_to ? 1 : 0));
      }
      EXPECT_EQ(Get(id).state,
                changed ? protocol::MessageState::kCancelled : protocol::MessageState::kScheduled);
    }
  }
}

// Older programs wrote no name of the topic for a subscription without a name.
TEST_F(BulkChangesTest, ADeadLetterWithoutATopicNameGoesBackToTheTopicOfItsDeadLetters) {
  const auto letter = [this] {
    const auto bytes =
        delivery::MakeDeadLetter(Message("p", 0).record, kDeadLetters, now_.wall_ms,
                                 {.id = MessageId::Make(1, 9, 0, kStart), .attempts = 3});
    storage::MessageRecord record;
    EXPECT_TRUE(storage::DecodeMessageRecord(*bytes, &record).ok());
    record.header.deliver_ms += 60'000;
    return Schedule(protocol::MakeNewMessage(record, 0)).id;
  };
  EXPECT_FALSE(Redriven(letter()));
  names_.letters_of = {{kTopic, storage::TopicId{7}}};
  EXPECT_FALSE(Redriven(letter()));
  names_.letters_of = {{kTopic, kDeadLetters}};
  EXPECT_TRUE(Redriven(letter()));
  Commit();
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
}

TEST_F(BulkChangesTest, ARedrivenDeadLetterSaysWhetherItWasDelivered) {
  for (const bool delivered : {true, false}) {
    const MessageId id = DeadLetter(100);
    if (delivered) {
      Attach(protocol::StreamId{2}, storage::FirstSubscription(kDeadLetters), kDeadLetters);
      const auto tokens = Deliver(200);
      ASSERT_EQ(tokens.size(), 1u);
      p_.lease_ends->Settle(now_,
                            test::Settles(protocol::StreamId{2}, tokens,
                                          {.action = protocol::SettleAction::kNack, .ms = 1'000}));
      Commit();
    }
    EXPECT_TRUE(Redriven(id));
    Commit();
    const protocol::CancelReply reply = Cancel(ById(id));
    EXPECT_EQ(reply.outcome, protocol::Outcome::kAlreadyCancelled);
    EXPECT_EQ(reply.redelivery_stopped, delivered);
  }
}

TEST_F(BulkChangesTest, ARedrivenMessageGetsItsKeyBack) {
  const MessageId origin = Schedule(Message("p", 60'000, &keyed_)).id;
  ASSERT_TRUE(*bulk_.Cancel(now_, origin, false));
  Commit();
  const MessageId letter = KeyedDeadLetter(origin);
  // A second subscription dead-lettered the message, too.
  const MessageId second = KeyedDeadLetter(origin);
  const MessageId next = scheduler_.NextId();
  const MessageId redriven =
      MessageId::Make(next.epoch(), next.sequence(), letter.slot(), now_.wall_ms);
  ASSERT_TRUE(Redriven(letter));
  for (const bool locked : {true, false}) {
    EXPECT_EQ(locks_.Locked(MessageLocks::KeyName(kTopic, "k")), locked);
    EXPECT_EQ(locks_.Locked(MessageLocks::Name(redriven)), locked);
    if (locked) Commit();
  }
  EXPECT_EQ(Owner(), redriven);
  EXPECT_NE(redriven, origin);
  EXPECT_EQ(Get(redriven).state, protocol::MessageState::kDue);
  // A repeat of the first Schedule finds it: the key's content is that of the origin.
  const protocol::AcceptedMessage repeat = Schedule(Message("p", 60'000, &keyed_));
  EXPECT_EQ(repeat.outcome, protocol::ScheduleOutcome::kUnchanged);
  EXPECT_EQ(repeat.id, redriven);
  ASSERT_TRUE(Redriven(second));
  Commit();
  EXPECT_EQ(Owner(), redriven);
  EXPECT_EQ(*writer_.Pending(kTopic), 2);
}

TEST_F(BulkChangesTest, ARedrivenMessageTakesNoKeyThatIsInUse) {
  protocol::ScheduleOptions replace = keyed_;
  replace.on_conflict = protocol::OnConflict::kReplace;
  // The origin is pending in another subscription.
  const MessageId origin = Schedule(Message("p", 60'000, &keyed_)).id;
  ASSERT_TRUE(Redriven(KeyedDeadLetter(origin)));
  Commit();
  EXPECT_EQ(Owner(), origin);
  // A later message has the key.
  ASSERT_TRUE(*bulk_.Cancel(now_, origin, false));
  Commit();
  const MessageId later = Schedule(Message("q", 60'000, &replace)).id;
  ASSERT_NE(later, origin);
  ASSERT_TRUE(Redriven(KeyedDeadLetter(origin)));
  Commit();
  EXPECT_EQ(Owner(), later);
}

TEST_F(BulkChangesTest, ARedrivenMessageTakesTheKeyOfAMessageThatHasEnded) {
  const MessageId origin = Schedule(Message("p", 60'000, &keyed_)).id;
  ASSERT_TRUE(*bulk_.Cancel(now_, origin, false));
  Commit();
  const MessageId later = Schedule(Message("q", 60'000, &keyed_)).id;
  ASSERT_TRUE(*bulk_.Cancel(now_, later, false));
  Commit();
  ASSERT_TRUE(Redriven(KeyedDeadLetter(origin)));
  Commit();
  const MessageId redriven = Owner();
  EXPECT_EQ(Get(redriven).state, protocol::MessageState::kDue);
  // The key has the content of neither message.
  for (const char* const payload : {"p", "q"}) {
    EXPECT_FALSE(Schedule(Message(payload, 60'000, &keyed_)).status.ok());
  }
  EXPECT_EQ(Owner(), redriven);
}

TEST_F(BulkChangesTest, ARedrivenMessageTakesAKeyThatLeadsNowhere) {
  ASSERT_EQ(Owner(), MessageId{});
  ASSERT_TRUE(Redriven(KeyedDeadLetter(MessageId::Make(1, 9, 0, kStart))));
  Commit();
  EXPECT_NE(Owner(), MessageId{});
}

TEST_F(BulkChangesTest, ARedriveWaitsForAChangeOfTheKey) {
  const MessageId origin = Schedule(Message("p", 60'000, &keyed_)).id;
  const MessageId letter = KeyedDeadLetter(origin);
  for (const auto& name : {MessageLocks::KeyName(kTopic, "k"), MessageLocks::Name(origin)}) {
    locks_.Lock(name);
    EXPECT_EQ(*bulk_.Redrive(now_, letter), BulkChanges::Redriven::kLater);
    EXPECT_TRUE(Redriven(DeadLetter()));  // has no key
    Commit();
    locks_.Unlock(now_, name, true);
  }
  EXPECT_TRUE(Redriven(letter));
}

// The topic took its number over, and the command with its first id is still in the mailbox.
TEST_F(BulkChangesTest, ARedrivenMessageIsNotBelowTheFirstIdOfItsTopic) {
  const MessageId former = Schedule(Message("p", 60'000, &keyed_)).id;
  ASSERT_TRUE(*bulk_.Cancel(now_, former, false));
  Commit();
  const MessageId letter = KeyedDeadLetter(former);
  const MessageId next = scheduler_.NextId();
  names_.first_id = MessageId::Make(next.epoch(), next.sequence() + 100, 0, 0);
  ASSERT_TRUE(Redriven(letter));
  Commit();
  const MessageId redriven = Owner();
  EXPECT_GE(redriven, names_.first_id);
  index_.SetFirstId(kTopic, names_.first_id);
  EXPECT_EQ(Owner(), redriven);
  // The content of the former topic's message does not count.
  EXPECT_FALSE(Schedule(Message("p", 60'000, &keyed_)).status.ok());
  EXPECT_EQ(*writer_.Pending(kTopic), 1);
}

TEST_F(BulkChangesTest, ADeadLetterOfADamagedKeyGoesBackWithoutTheKey) {
  const MessageId letter = KeyedDeadLetter(Schedule(Message("p", 60'000, &keyed_)).id);
  disk_.DamageIndex(0, kTopic, storage::IndexKind::kUserKey, "k");
  ExpectRedrivenWithoutKey(letter);
}

TEST_F(BulkChangesTest, ADeadLetterOfADamagedOriginGoesBackWithoutTheKey) {
  const MessageId origin = Schedule(Message("p", 60'000, &keyed_)).id;
  const MessageId letter = KeyedDeadLetter(origin);
  disk_.Damage(0, {.due_ms = origin.due_ms(), .id = origin});
  ExpectRedrivenWithoutKey(letter);
  EXPECT_EQ(Owner(), origin);
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
