// SPDX-License-Identifier: Apache-2.0
//
// What is kept of attempts that ended without a settlement, and of the dead letters of a message.
#include "server/delivery/last_attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/leases.h"
#include "server/delivery/streams.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::EndState;
using storage::MessageId;
using testing::ElementsAre;
using testing::IsEmpty;

class LastAttemptsTest : public DeliveryWorld {
 protected:
  void Lease(Subscription* subscription, EntryIndex index) {
    const protocol::StreamId id{subscription == one_ ? 77u : 78u};
    Stream* stream = core_.streams.Find(id);
    if (stream == nullptr) {
      stream = Attach(subscription, id);
      stream->client_id = "worker";
    }
    EXPECT_TRUE(stream->credit->Take(0, At(index).bytes));
    core_.leases.Begin(now_, stream, index);
  }
  EntryIndex Lease(Subscription* subscription, const storage::MessageRef& message) {
    const EntryIndex index = Take(subscription, message);
    Lease(subscription, index);
    return index;
  }
  void FailAndLease(EntryIndex index, const std::string& why) {
    p_.retries->Fail(now_, index, Failure::kNacked, 0, why);
    core_.states.TakeOut(index);
    Lease(At(index).subscription, index);
  }
  std::vector<std::string> Reasons(const std::string& bytes) {
    std::vector<std::string> reasons;
    const auto attempts = storage::DecodeAttempts(bytes).value();
    for (const storage::Attempt& one : attempts) reasons.emplace_back(one.reason);
    return reasons;
  }
  std::vector<protocol::SubscriptionStatus> Told(const storage::MessageRef& message) {
    std::vector<protocol::SubscriptionStatus> list;
    EXPECT_TRUE(p_.status->StatusOf(now_, message.key, *one_->topic, &list).ok());
    return list;
  }
};

TEST_F(LastAttemptsTest, AnAttemptSaysWhenByWhomAndHowItEnded) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  now_.wall_ms += 40;
  p_.retries->Fail(now_, index, Failure::kNacked, 300, "HTTP 503");
  Commit();
  EXPECT_THAT(storage::DecodeAttempts(Row(message.key, *one_)->last_attempts).value(),
              ElementsAre(storage::Attempt{.number = 1,
                                           .end = Failure::kNacked,
                                           .end_ms = now_.wall_ms,
                                           .held_ms = 40,
                                           .delay_ms = 300,
                                           .client_id = "worker",
                                           .reason = "HTTP 503"}));
}

// Only a failure after the first one reads.
TEST_F(LastAttemptsTest, TheFirstFailureReadsNothing) {
  const EntryIndex index = Lease(one_, Put());
  store_.FailReads(absl::InternalError("no reads"));
  FailAndLease(index, "first");
  EXPECT_TRUE(core_.reader.ok());
  FailAndLease(index, "second");
  EXPECT_TRUE(core_.reader.ok()) << "the first one is not committed, so memory has it";
  Commit();
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "third");
  EXPECT_FALSE(core_.reader.ok());
  store_.FailReads(absl::OkStatus());
}

TEST_F(LastAttemptsTest, AttemptsAreToldBeforeAndAfterTheirCommit) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), IsEmpty());
  FailAndLease(index, "a");
  FailAndLease(index, "b");
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), ElementsAre("a", "b"));
  Commit();
  EXPECT_EQ(core_.records.Uncommitted(message.key, one_->state.id), nullptr);
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), ElementsAre("a", "b"));
  FailAndLease(index, "c");
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), ElementsAre("a", "b", "c"));
}

TEST_F(LastAttemptsTest, TheyStayWhileTheMessageWaitsOnDisk) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "a");
  Commit();
  core_.states.TakeOut(index);
  // As when the clock was set back.
  core_.backlog.WaitUntilDue(index);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), ElementsAre("a"));
}

// Damage costs the attempts before, and nothing else.
TEST_F(LastAttemptsTest, AfterDamageTheyBeginAnew) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  FailAndLease(index, "a");
  Commit();
  disk_.DamageProgress(0, message.key, one_->state.id);
  EXPECT_THAT(Told(message), testing::SizeIs(1));
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "b");
  EXPECT_TRUE(core_.reader.ok());
  EXPECT_THAT(Reasons(Told(message)[0].last_attempts), ElementsAre("b"));
}

TEST_F(LastAttemptsTest, ASettlementForgetsThem) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  core_.states.MakeReady(Take(other, message));
  FailAndLease(index, "a");
  p_.ends->BeginSettle(now_, index, EndState::kAcked, storage::Durability::kBuffered);
  EXPECT_EQ(Told(message)[0].last_attempts, "") << "though the failure is not committed";
  Commit();
  EXPECT_EQ(Row(message.key, *one_)->last_attempts, "");
  p_.ends->Finish(index);
}

class NamedDeadLetterTest : public LastAttemptsTest {
 protected:
  // The only message that is due in the dead-letter topic.
  MessageId Letter(const storage::MessageRef& origin) {
    storage::Page<storage::MessageRef> page;
    EXPECT_TRUE(
        store_.Scan(0, {}, storage::MessageKey::FirstAt(MessageId::kDueMax), {}, &page).ok());
    MessageId letter;
    for (const storage::MessageRef& one : page.items) {
      if (one.topic == kDeadLetters && one.key.id != origin.key.id) letter = one.key.id;
    }
    return letter;
  }
};

TEST_F(NamedDeadLetterTest, TheOriginalNamesItsDeadLetterWhichHasItsAttempts) {
  one_->state.settings.mutable_retry()->set_max_attempts(2);
  one_->topic->dead_letter = kDeadLetters;
  const storage::MessageRef message = Put();
  const EntryIndex index = Lease(one_, message);
  FailAndLease(index, "a");
  p_.retries->Fail(now_, index, Failure::kNacked, 0, "b");
  Commit();
  const MessageId letter = Letter(message);
  EXPECT_THAT(TombstoneOf(message.key.id)->dead_letters, ElementsAre(letter));
  const auto bytes = store_.Get(0, {.due_ms = letter.due_ms(), .id = letter});
  storage::MessageRecord record;
  ASSERT_TRUE(storage::DecodeMessageRecord(**bytes, &record).ok());
  EXPECT_EQ(record.dead_letter->id, message.key.id);
  EXPECT_THAT(Reasons(std::string(record.dead_letter->last_attempts)), ElementsAre("a", "b"));
}

// Of several subscriptions, one gives the message up and the last one acks it. `commits`: the batch
// of the first is in the store when the last one settles.
TEST_F(NamedDeadLetterTest, TheTombstoneNamesTheDeadLettersOfAllSubscriptions) {
  one_->topic->dead_letter = kDeadLetters;
  Subscription* const other = AddSubscription();
  for (const bool commits : {false, true}) {
    const storage::MessageRef message = Put();
    const EntryIndex first = Lease(one_, message);
    const EntryIndex last = Lease(other, message);
    EXPECT_EQ(p_.dead_letters->Make(now_, first, storage::DeadLetterReason::kRejected, "no"),
              DeadLetters::Made::kYes);
    const MessageId letter = Told(message)[0].dead_letter;
    EXPECT_NE(letter, MessageId{});
    if (commits) Commit();
    EXPECT_EQ(Told(message)[0].dead_letter, letter);
    p_.ends->BeginSettle(now_, last, EndState::kAcked, storage::Durability::kBuffered);
    Commit();
    p_.ends->Finish(last);
    EXPECT_THAT(TombstoneOf(message.key.id)->dead_letters, ElementsAre(letter));
  }
}

}  // namespace
}  // namespace duetime::delivery
