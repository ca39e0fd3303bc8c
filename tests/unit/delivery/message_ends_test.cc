// SPDX-License-Identifier: Apache-2.0
//
// MessageEnds, MessageStatus, DeadLetters and Retries: how a message ends, or is tried again.
#include "server/delivery/endings/message_ends.h"

#include <optional>

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog.h"
#include "server/delivery/endings/dead_letter.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/leases.h"
#include "server/delivery/streams.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::Durability;
using storage::EndState;
using State = storage::Progress::State;

class MessageEndsTest : public DeliveryWorld {
 protected:
  explicit MessageEndsTest(const ShardLimits& limits = {}) : DeliveryWorld(limits) {}

  EntryIndex Lease(Subscription* subscription, const storage::MessageRef& message) {
    Stream* stream = core_.streams.Find(kStream);
    if (stream == nullptr) stream = Attach(subscription);
    EXPECT_TRUE(stream->credit->Take(0, message.bytes));
    const EntryIndex index = Take(subscription, message);
    core_.leases.Begin(now_, stream, index);
    return index;
  }
  void Settle(EntryIndex index, EndState how) {
    p_.ends->BeginSettle(now_, index, how, Durability::kBuffered);
    writes_.Then([this, index](base::Now, bool) { p_.ends->Finish(index); });
  }
};

class RetriesTest : public MessageEndsTest {
 protected:
  explicit RetriesTest(const ShardLimits& limits = {}) : MessageEndsTest(limits) {}
};
using DeadLettersTest = MessageEndsTest;
using MessageStatusTest = MessageEndsTest;

TEST_F(MessageEndsTest, TheOnlySubscriptionEndsTheMessage) {
  const storage::MessageRef message = Put();
  Settle(Take(one_, message), EndState::kAcked);
  EXPECT_TRUE(p_.ends->AnyEnding(message.key.id));
  EXPECT_TRUE(p_.ends->MessageEnding(message.key));
  EXPECT_TRUE(Stored(message.key)) << "not before the commit";
  Commit();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_EQ(core_.table.size(), 0u);
  ASSERT_TRUE(TombstoneOf(message.key.id).has_value());
  EXPECT_EQ(TombstoneOf(message.key.id)->state, EndState::kAcked);
}

TEST_F(MessageEndsTest, OnlyTheLastSubscriptionEndsTheMessage) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  const EntryIndex first = Take(one_, message);
  const EntryIndex last = Take(other, message);
  core_.states.MakeReady(last);
  Settle(first, EndState::kAcked);
  EXPECT_FALSE(p_.ends->MessageEnding(message.key));
  Commit();
  EXPECT_TRUE(Stored(message.key));
  ASSERT_TRUE(Row(message.key, *one_).has_value());
  EXPECT_EQ(Row(message.key, *one_)->state, State::kSettled);
  Settle(last, EndState::kAcked);
  Commit();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_FALSE(Row(message.key, *one_).has_value()) << "the progress goes with the message";
}

// Neither is in the store when the other decides.
TEST_F(MessageEndsTest, TwoThatSettleInOneBatchEndTheMessage) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  const EntryIndex first = Take(one_, message);
  const EntryIndex last = Take(other, message);
  core_.states.MakeReady(last);
  Settle(first, EndState::kAcked);
  Settle(last, EndState::kAcked);
  Commit();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_FALSE(Row(message.key, *one_).has_value());
}

TEST_F(MessageEndsTest, AMessageThatAnotherHasNotSeenStays) {
  AddSubscription();
  const storage::MessageRef message = Put();
  Settle(Take(one_, message), EndState::kAcked);
  Commit();
  EXPECT_TRUE(Stored(message.key));
}

TEST_F(MessageEndsTest, AnEntryOfADeletedSubscriptionDoesNotKeepTheMessage) {
  Subscription* const deleted = AddSubscription();
  const storage::MessageRef message = Put();
  const EntryIndex stale = Ready(deleted, message);
  const EntryIndex last = Take(one_, message);
  deleted->state.deleting = true;
  Settle(last, EndState::kAcked);
  Commit();
  ASSERT_TRUE(TombstoneOf(message.key.id).has_value());
  EXPECT_EQ(TombstoneOf(message.key.id)->state, EndState::kAcked);
  p_.ends->DropStale(stale);
  EXPECT_EQ(core_.table.size(), 0u);
  deleted->state.deleting = false;
}

TEST_F(MessageEndsTest, ACancelTakesItFromMemoryAndBacklog) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Ready(one_, message);
  core_.backlog.ListNew(message, other, nullptr);
  Commit();
  storage::MessageRecord record;
  record.header.topic = kTopic;
  const auto status = p_.status->StatusOf(now_, message.key, *one_->topic, nullptr);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(p_.ends
                  ->BeginEnd(now_, {.key = message.key,
                                    .record = &record,
                                    .bytes = message.bytes,
                                    .status = &*status,
                                    .how = EndState::kCancelled})
                  .ok());
  EXPECT_TRUE(p_.ends->MessageEnding(message.key));
  Commit();
  p_.ends->FinishAll(message.key);
  EXPECT_FALSE(Stored(message.key));
  EXPECT_FALSE(Listed(message.key, *other));
  EXPECT_EQ(core_.table.size(), 0u);
}

TEST_F(MessageEndsTest, AStaleEntryGoesWithItsListing) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Ready(one_, message);
  core_.backlog.List(index);
  Commit();
  p_.ends->DropStale(index);
  Commit();
  EXPECT_FALSE(Listed(message.key, *one_));
  EXPECT_TRUE(Stored(message.key)) << "the store is not touched";
}

TEST_F(MessageStatusTest, CountsTheMostAttempts) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  At(Ready(one_, message)).attempts = 2;
  Lease(other, message);
  std::vector<protocol::SubscriptionStatus> list;
  const auto status = p_.status->StatusOf(now_, message.key, *one_->topic, &list);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->attempts, 2u);
  EXPECT_TRUE(status->in_flight);
  EXPECT_FALSE(status->uncertain);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].state, protocol::MessageState::kDue);
  EXPECT_EQ(list[1].state, protocol::MessageState::kInFlight);
  EXPECT_EQ(list[1].lease_end_ms, now_.wall_ms + 1'000);
}

// P3: a cancel must not say that nobody received the message.
TEST_F(MessageStatusTest, ADeletedSubscriptionMayHaveDeliveredWhatItListed) {
  AddSubscription();
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  At(index).attempts = 1;
  core_.backlog.MoveToDisk(index);
  Commit();
  one_->state.deleting = true;
  const auto status = p_.status->StatusOf(now_, message.key, *one_->topic, nullptr);
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->attempts, 1u);
  EXPECT_FALSE(status->untouched());
}

// The listing of a message in memory says that it may have been delivered since.
TEST_F(MessageStatusTest, ADeletedSubscriptionKnowsWhatItHasInMemory) {
  AddSubscription();
  const storage::MessageRef message = Put();
  core_.backlog.List(Ready(one_, message));
  Commit();
  core_.backlog.FallBehind(one_, message.key);
  one_->state.deleting = true;
  const auto status = p_.status->StatusOf(now_, message.key, *one_->topic, nullptr);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->untouched());
}

TEST_F(MessageStatusTest, AMessageThatNoSubscriberReceivedIsUntouched) {
  const storage::MessageRef message = Put();
  const auto status = p_.status->StatusOf(now_, message.key, *one_->topic, nullptr);
  ASSERT_TRUE(status.ok());
  EXPECT_TRUE(status->untouched());
}

TEST_F(RetriesTest, AFailedAttemptWaitsAndIsNoted) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  p_.retries->Fail(now_, index, Failure::kNacked, 300, "");
  EXPECT_EQ(At(index).state, EntryState::kDelayed);
  EXPECT_EQ(At(index).wait_end_mono_ms, now_.mono_ms + 300);
  EXPECT_EQ(core_.streams.Get(kStream)->credit->messages(), 0) << "the credit is returned";
  Commit();
  const auto row = Row(message.key, *one_);
  ASSERT_TRUE(row.has_value());
  EXPECT_EQ(row->state, State::kFailed);
  EXPECT_EQ(row->attempts, 1u);
  EXPECT_EQ(row->retry_ms, now_.wall_ms + 300);
  EXPECT_EQ(row->reason, static_cast<uint8_t>(Failure::kNacked));
}

TEST_F(RetriesTest, WithoutADelayItIsReadyAtOnce) {
  const EntryIndex index = Lease(one_, Put());
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "");
  EXPECT_EQ(At(index).state, EntryState::kReady);
}

TEST_F(RetriesTest, ADeletedSubscriptionTriesNothingAgain) {
  const EntryIndex index = Lease(one_, Put());
  one_->state.deleting = true;
  p_.retries->Fail(now_, index, Failure::kLeaseLost, std::nullopt, "");
  EXPECT_EQ(At(index).state, EntryState::kReady);
  EXPECT_EQ(stats_.retried, 0u);
  one_->state.deleting = false;
}

TEST_F(RetriesTest, TheLastAttemptMakesADeadLetter) {
  one_->state.settings.mutable_retry()->set_max_attempts(1);
  one_->topic->dead_letter = kDeadLetters;
  const storage::MessageRef message = Put();
  p_.retries->Fail(now_, Lease(one_, message), Failure::kNacked, 0, "no");
  Commit();
  EXPECT_EQ(stats_.dead_lettered, 1u);
  EXPECT_FALSE(Stored(message.key));
}

TEST_F(RetriesTest, WithoutATopicForDeadLettersItIsTriedAgain) {
  one_->state.settings.mutable_retry()->set_max_attempts(1);
  const EntryIndex index = Lease(one_, Put());
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "");
  EXPECT_EQ(At(index).state, EntryState::kDelayed) << "not at once, whatever the client asks for";
  EXPECT_EQ(stats_.dead_letters_refused, 1u);
}

TEST_F(RetriesTest, AfterTheLastHopItIsTriedAgain) {
  one_->state.settings.mutable_retry()->set_max_attempts(1);
  one_->topic->dead_letter = kDeadLetters;
  storage::MessageRecord record;
  record.dead_letter = storage::DeadLetterOrigin{.hops = kDeadLetterHopsMax};
  const EntryIndex index = Lease(one_, Put(record));
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "");
  EXPECT_EQ(At(index).state, EntryState::kDelayed);
  EXPECT_EQ(stats_.dead_letter_hops_refused, 1u);
  EXPECT_EQ(one_->dead_letter_hops_refused, 1u);
  EXPECT_EQ(stats_.dead_letters_refused, 0u);
}

class FullMemoryTest : public RetriesTest {
 protected:
  FullMemoryTest() : RetriesTest({.scheduler = {}, .due_max = 1}) {}
};

TEST_F(FullMemoryTest, ADelayWaitsOnDisk) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  p_.retries->Fail(now_, index, Failure::kNacked, 300, "");
  EXPECT_EQ(At(index).state, EntryState::kForgetting);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_TRUE(Listed({.due_ms = now_.wall_ms + 300, .id = message.key.id}, *one_));
  EXPECT_TRUE(Row(message.key, *one_)->listed);
}

TEST_F(DeadLettersTest, ALetterStandsForTheMessage) {
  one_->topic->dead_letter = kDeadLetters;
  storage::MessageRecord record;
  record.payload = "payload";
  const storage::MessageRef message = Put(record);
  const EntryIndex index = Take(one_, message);
  EXPECT_EQ(p_.dead_letters->Make(now_, index, storage::DeadLetterReason::kRejected, "why"),
            DeadLetters::Made::kYes);
  EXPECT_EQ(At(index).state, EntryState::kEnding);
  Commit();
  EXPECT_EQ(TombstoneOf(message.key.id)->state, EndState::kDeadLettered);
  EXPECT_EQ(one_->dead_lettered, 1u);
  EXPECT_EQ(writer_.Pending(kDeadLetters).value(), 1);
}

TEST_F(DeadLettersTest, TheSubscriptionsOwnTopicComesFirst) {
  constexpr storage::TopicId kOwn{3};
  one_->topic->dead_letter = kDeadLetters;
  one_->state.settings.set_dead_letter(static_cast<uint32_t>(kOwn));
  EXPECT_EQ(p_.dead_letters->Make(now_, Take(), storage::DeadLetterReason::kRejected, ""),
            DeadLetters::Made::kYes);
  Commit();
  EXPECT_EQ(writer_.Pending(kOwn).value(), 1);
  EXPECT_EQ(writer_.Pending(kDeadLetters).value(), 0);
}

TEST_F(DeadLettersTest, TheBudgetIsOfOneStep) {
  one_->topic->dead_letter = kDeadLetters;
  storage::MessageRecord record;
  const std::string payload(DeadLetters::kBytesPerStep, 'x');
  record.payload = payload;
  EXPECT_TRUE(p_.dead_letters->has_budget());
  const EntryIndex index = Take(one_, Put(record));
  EXPECT_EQ(p_.dead_letters->Make(now_, index, storage::DeadLetterReason::kRejected, ""),
            DeadLetters::Made::kYes);
  EXPECT_FALSE(p_.dead_letters->has_budget());
  p_.dead_letters->KeepBudget(1);
  EXPECT_TRUE(p_.dead_letters->has_budget());
  p_.dead_letters->BeginStep();
  EXPECT_TRUE(p_.dead_letters->has_budget());
  Commit();
}

}  // namespace
}  // namespace duetime::delivery
