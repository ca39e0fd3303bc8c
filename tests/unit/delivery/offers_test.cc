// SPDX-License-Identifier: Apache-2.0
//
// Offers: a due message on its way to its subscriptions.
#include "server/delivery/offers.h"

#include <cstdint>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/endings/message_ends.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::Durability;
using storage::EndState;
using RowState = storage::Progress::State;

class OffersTest : public DeliveryWorld {
 protected:
  void Offer(const storage::MessageRef& message) { p_.offers->OnDue(now_, message); }
  // Settles the message for the subscription, and leaves the commit to the test.
  void Settle(Subscription* subscription, const storage::MessageRef& message, EndState how) {
    const EntryIndex index = Take(subscription, message);
    p_.ends->BeginSettle(now_, index, how, Durability::kBuffered);
    writes_.Then([this, index](base::Now, bool accepted) {
      if (accepted) p_.ends->Finish(index);
    });
  }
  // The subscription has nothing and goes.
  void Delete(Subscription* subscription) {
    subscription->state.deleting = true;
    core_.subscriptions.Remove(subscription);
  }
};

TEST_F(OffersTest, EachSubscriptionThatItIsForGetsAnEntry) {
  Subscription* const older = AddSubscription();
  const storage::MessageRef message = Put();
  Subscription* const younger = AddSubscription(2);
  younger->state.start = scheduler_.NextId();
  Offer(message);
  for (const Subscription* const one : {one_, older}) {
    const EntryIndex index = core_.table.Find(message.key.id, one);
    ASSERT_NE(index, kNoEntry);
    EXPECT_EQ(At(index).state, EntryState::kReady);
    EXPECT_TRUE(At(index).pinned);
  }
  EXPECT_EQ(core_.table.Find(message.key.id, younger), kNoEntry);
  EXPECT_EQ(stats_.fired, 1u);
}

TEST_F(OffersTest, ASecondOfferChangesNothing) {
  const storage::MessageRef in_memory = Put();
  Offer(in_memory);
  Offer(in_memory);
  EXPECT_EQ(core_.table.size(), 1u);
  EXPECT_EQ(one_->ready.count, 1u);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 1u);
}

TEST_F(OffersTest, BehindABacklogTheMessageIsListed) {
  PutListed(one_);
  const storage::MessageRef message = Put();
  Offer(message);
  EXPECT_EQ(core_.table.size(), 0u);
  Commit();
  EXPECT_TRUE(Listed(message.key, *one_));
}

TEST_F(OffersTest, ALockedMessageIsNotOffered) {
  const storage::MessageRef message = Put();
  const scheduler::KeyLocks::Name name(message.key.id);
  key_locks_.Acquire(name);
  Offer(message);
  EXPECT_EQ(core_.table.size(), 0u);
  key_locks_.Release(now_, name, /*ok=*/true);
}

TEST_F(OffersTest, TheAttemptsAndTheWaitOfAnEarlierRunGoOn) {
  AddSubscription();
  const storage::MessageRef message = Put();
  core_.records.PutProgress(
      message.key, one_->state.id,
      {.state = RowState::kFailed, .attempts = 3, .retry_ms = now_.wall_ms + 500});
  Commit();
  Offer(message);
  const EntryIndex index = core_.table.Find(message.key.id, one_);
  ASSERT_NE(index, kNoEntry);
  EXPECT_EQ(At(index).attempts, 3u);
  EXPECT_EQ(At(index).state, EntryState::kDelayed);
  EXPECT_EQ(At(index).wait_end_mono_ms, now_.mono_ms + 500);
}

// Of two places the store has one.
TEST_F(OffersTest, AnEntryMovesToThePlaceOfItsRecord) {
  const storage::MessageRef stale = Put();
  Offer(stale);
  storage::MessageRef moved = stale;
  moved.key.due_ms += 5;
  const auto record = store_.Get(0, stale.key);
  ASSERT_TRUE(record.ok() && record->has_value());
  writer_.Erase(stale.key, kTopic, stale.bytes, Durability::kBuffered);
  writer_.Put(moved.key, kTopic, **record);
  Commit();
  Pass(5);
  Offer(moved);
  const EntryIndex index = core_.table.Find(moved.key.id, one_);
  EXPECT_EQ(At(index).due_ms, moved.key.due_ms);
  Offer(stale);
  EXPECT_EQ(At(index).due_ms, moved.key.due_ms);
  EXPECT_EQ(core_.table.size(), 1u);
}

// Until its listing is claimed, a message must not be handed out from there.
TEST_F(OffersTest, AnEntryLeavesMemoryIfItsMessageIsListedAtItsPlace) {
  const storage::MessageRef moved = PutListed(one_);
  storage::MessageRef stale = moved;
  stale.key.due_ms -= 5;
  const EntryIndex index = core_.table.Insert(stale.key, one_);
  core_.states.Pin(index);
  core_.states.MakeReady(index);
  one_->backlog.Advance(After(moved.key));
  Offer(moved);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_EQ(one_->ready.count, 0u);
  EXPECT_TRUE(Listed(moved.key, *one_));
  EXPECT_LE(one_->backlog.first(), moved.key);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
}

TEST_F(OffersTest, AnEntryLeavesMemoryIfItsMessageIsAboutToBeListedAtItsPlace) {
  const storage::MessageRef moved = Put();
  core_.backlog.ListNew(moved, one_, nullptr);
  storage::MessageRef stale = moved;
  stale.key.due_ms -= 5;
  const EntryIndex index = core_.table.Insert(stale.key, one_);
  core_.states.Pin(index);
  core_.states.MakeReady(index);
  Offer(moved);
  EXPECT_EQ(core_.table.size(), 0u);
  Commit();
  EXPECT_TRUE(Listed(moved.key, *one_));
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
}

TEST_F(OffersTest, ABoundedSubscriptionCountsAMessageOnce) {
  one_->state.settings.set_retention_max_messages(5);
  const storage::MessageRef message = PutListed(one_);
  ASSERT_EQ(one_->listed.count(), 1u);
  Offer(message);
  Commit();
  EXPECT_EQ(one_->listed.count(), 1u);
}

TEST_F(OffersTest, ABoundedSubscriptionGetsNoMessageThatIsGone) {
  one_->state.settings.set_retention_max_messages(5);
  Attach(one_);
  const storage::MessageRef message = Put();
  writer_.Erase(message.key, kTopic, message.bytes, Durability::kBuffered);
  Commit();
  Offer(message);
  EXPECT_EQ(core_.table.size(), 0u);
}

TEST_F(OffersTest, ABoundedSubscriptionGetsADamagedMessage) {
  one_->state.settings.set_retention_max_messages(5);
  const storage::MessageRef message = Put();
  store_.FailReads(storage::DamageError({}));
  Offer(message);
  store_.FailReads(absl::OkStatus());
  EXPECT_NE(core_.table.Find(message.key.id, one_), kNoEntry);
}

// P1: the message may be readable again, after a repair.
TEST_F(OffersTest, WhatCannotBeReadNowIsOfferedInTheNextRun) {
  struct Case {
    const char* what;
    std::function<void(Subscription*, const storage::MessageRef&)> prepare;
  };
  for (const Case& c : std::vector<Case>{
           {"the progress of several subscriptions",
            [this](Subscription*, const storage::MessageRef&) { AddSubscription(); }},
           {"the message, while an entry is at another place",
            [this](Subscription*one, const storage::MessageRef&message) {
              storage::MessageRef stale = message;
              stale.key.due_ms -= 5;
              const EntryIndex index = core_.table.Insert(stale.key, one);
              core_.states.Pin(index);
              core_.states.MakeReady(index);
            }},
           {"the message, which no subscription wants",
            [this](Subscription*one, const storage::MessageRef&) {
              one->state.start = scheduler_.NextId();
            }},
       }) {
    SCOPED_TRACE(c.what);
    one_->topic->several = false;
    one_->state.settings.set_retention_max_messages(0);
    one_->state.start = {};
    const storage::MessageRef message = Put();
    c.prepare(one_, message);
    const size_t held = scheduler_.low_watermark()->pinned();
    const size_t in_memory = core_.table.size();
    store_.FailReads(storage::DamageError({}));
    Offer(message);
    store_.FailReads(absl::OkStatus());
    EXPECT_EQ(scheduler_.low_watermark()->pinned(), held + 1);
    EXPECT_EQ(core_.table.size(), in_memory);
    EXPECT_TRUE(core_.reader.ok());
    for (Subscription* const other : std::vector(one_->topic->subscriptions)) {
      if (other != one_) Delete(other);
    }
  }
}

TEST_F(OffersTest, AMessageThatNoSubscriptionWantsEnds) {
  struct Case {
    bool settled;
    EndState how;
    uint64_t dropped;
  };
  Subscription* const other = AddSubscription();
  for (const Case& c : {Case{true, EndState::kAcked, 0}, Case{false, EndState::kDropped, 1}}) {
    const storage::MessageRef message = Put();
    if (c.settled) {
      core_.records.PutProgress(message.key, one_->state.id, {.state = RowState::kSettled});
      Commit();
    } else {
      one_->state.start = scheduler_.NextId();
    }
    other->state.start = scheduler_.NextId();
    stats_.dropped = 0;
    Offer(message);
    EXPECT_TRUE(key_locks_.Locked(message.key.id));
    Commit();
    EXPECT_FALSE(Stored(message.key));
    EXPECT_FALSE(key_locks_.Locked(message.key.id));
    EXPECT_EQ(TombstoneOf(message.key.id)->state, c.how);
    EXPECT_EQ(stats_.dropped, c.dropped);
  }
}

// ---- Offers while the message is being settled

// The message was offered to one subscription and not yet to the other: an earlier run listed it
// for the first, and its timer is still in the wheel. The other subscription, which was to end the
// message, is deleted while the settlement of the first is in flight.
class OfferWhileSettlingTest : public OffersTest, public testing::WithParamInterface<EndState> {};

TEST_P(OfferWhileSettlingTest, TheMessageEndsAfterTheCommit) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Settle(one_, message, GetParam());
  ASSERT_FALSE(p_.ends->MessageEnding(message.key));
  Delete(other);
  Offer(message);
  EXPECT_TRUE(Stored(message.key));
  Commit();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_FALSE(Row(message.key, *one_).has_value());
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
  EXPECT_EQ(key_locks_.locked(), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, OfferWhileSettlingTest,
                         testing::Values(EndState::kAcked, EndState::kDropped,
                                         EndState::kDeadLettered));

TEST_F(OffersTest, SeveralThatSettleDoNotKeepAMessageThatIsOffered) {
  Subscription* const second = AddSubscription();
  Subscription* const third = AddSubscription(2);
  const storage::MessageRef message = Put();
  Settle(one_, message, EndState::kAcked);
  Settle(second, message, EndState::kAcked);
  Delete(third);
  Offer(message);
  Commit();
  EXPECT_FALSE(Stored(message.key));
}

TEST_F(OffersTest, TheSubscriptionThatSettlesMayBeDeletedToo) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Settle(one_, message, EndState::kAcked);
  one_->state.deleting = true;
  Delete(other);
  Offer(message);
  Commit();
  EXPECT_FALSE(Stored(message.key));
}

// A restart before the second commit offers the message once more.
TEST_F(OffersTest, TheLowWatermarkWaitsForAMessageThatIsBeingSettled) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Settle(one_, message, EndState::kAcked);
  Delete(other);
  const size_t held = scheduler_.low_watermark()->pinned();
  Offer(message);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), held + 1);
  const auto batch = writes_.Take();
  ASSERT_TRUE(batch.has_value());
  writes_.Complete(now_, batch->sequence, /*accepted=*/false);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), held + 1) << "nothing changes in a failed shard";
}

// What another subscription still wants stays.
TEST_F(OffersTest, AMessageThatIsBeingSettledIsStillOfferedToTheOthers) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Settle(one_, message, EndState::kAcked);
  Offer(message);
  ASSERT_NE(core_.table.Find(message.key.id, other), kNoEntry);
  Offer(message);
  Commit();
  EXPECT_TRUE(Stored(message.key));
  ASSERT_TRUE(Row(message.key, *one_).has_value());
  EXPECT_EQ(Row(message.key, *one_)->state, RowState::kSettled);
  EXPECT_EQ(core_.table.size(), 1u);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 1u) << "only by the entry";
}

}  // namespace
}  // namespace duetime::delivery
