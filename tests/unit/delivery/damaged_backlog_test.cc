// SPDX-License-Identifier: Apache-2.0
//
// A damaged backlog: the messages that it hides are listed anew, from their own records.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/retention.h"
#include "server/delivery/offers.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/protocol/subscription_state.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using RowState = storage::Progress::State;

class DamagedBacklogTest : public DeliveryWorld {
 protected:
  DamagedBacklogTest() { p_.lease_ends->Step(now_); }  // the step's budget of dead letters

  void Damage(const storage::MessageKey& place) { disk_.DamageBacklog(0, one_->state.id, place); }
  void ReadPage() { EXPECT_TRUE(p_.backlog_reader->ReadPage(now_, one_).ok()); }
  void FillAll() {
    while (p_.fill->Step()) Commit();
    Commit();
  }
  storage::BacklogEntry ListingOf(const storage::MessageKey& place) {
    const auto entry = store_.GetBacklog(0, one_->state.id, place);
    EXPECT_TRUE(entry.ok() && entry->has_value()) << entry.status();
    return entry.ok() ? entry->value_or(storage::BacklogEntry{}) : storage::BacklogEntry{};
  }
  uint64_t StoredFillTime(const Subscription& subscription) {
    const std::string name = protocol::SubscriptionObjectName(subscription.state.id);
    const auto object = store_.GetObject(storage::ObjectKind::kSubscription, 0, name);
    EXPECT_TRUE(object.ok() && object->has_value());
    return protocol::DecodeSubscription(name, object->value_or(""))->fill_until_ms;
  }
  void ExpectFilledAgainByTheNextRun(const storage::MessageRef& unreadable) {
    const storage::MessageRef sound = Put();
    Subscription* const added = AddSubscription();
    added->state.fill_until_ms = now_.wall_ms;
    p_.fill->Start(added);
    FillAll();
    EXPECT_FALSE(added->filling);
    EXPECT_TRUE(Listed(sound.key, *added));
    EXPECT_FALSE(Listed(unreadable.key, *added));
    EXPECT_EQ(StoredFillTime(*added), now_.wall_ms);
  }
  size_t Listings() {
    storage::Page<storage::BacklogRef> page;
    EXPECT_TRUE(store_.ScanBacklog(0, one_->state.id, {}, {.entries = 1'000}, &page).ok());
    return page.items.size();
  }
};

TEST_F(DamagedBacklogTest, WhatItHidesIsDeliveredAsMaybeRepeated) {
  const storage::MessageRef sound = PutListed(one_);
  const storage::MessageRef hidden = PutListed(one_);
  Damage(hidden.key);
  Attach(one_);
  ReadPage();
  EXPECT_TRUE(one_->filling);
  FillAll();
  EXPECT_FALSE(one_->filling);
  EXPECT_TRUE(ListingOf(hidden.key).maybe_delivered);
  EXPECT_FALSE(ListingOf(sound.key).maybe_delivered);
  while (one_->backlog.any()) {
    ReadPage();
    Commit();
  }
  ASSERT_EQ(one_->ready.count, 2u);
  EXPECT_EQ(At(one_->ready.head).key(), sound.key);
  EXPECT_FALSE(At(one_->ready.head).maybe_delivered);
  EXPECT_EQ(At(one_->ready.tail).key(), hidden.key);
  EXPECT_TRUE(At(one_->ready.tail).maybe_delivered);
}

// A full list of damaged blocks hides whole tables from scans, with the sound entries in them.
TEST_F(DamagedBacklogTest, ASoundListingThatNoScanShowsIsListedAnew) {
  const storage::MessageRef hidden = PutListed(one_);
  const storage::MessageRef seen = PutListed(one_);
  disk_.HideBacklog(0, one_->state.id, hidden.key);
  ASSERT_TRUE(Listed(hidden.key, *one_)) << "by a read of the place";
  ASSERT_EQ(Listings(), 1u);
  Attach(one_);
  ReadPage();
  FillAll();
  EXPECT_EQ(Listings(), 2u);
  EXPECT_TRUE(ListingOf(hidden.key).maybe_delivered);
  EXPECT_TRUE(Listed(seen.key, *one_));
}

// Each message has a damaged place in the backlog, but none of them waits there.
TEST_F(DamagedBacklogTest, OnlyWhatWaitsForTheSubscriptionIsListed) {
  const storage::MessageRef before_its_start = Put();
  one_->state.start = scheduler_.NextId();
  Subscription* const other = AddSubscription();
  const storage::MessageRef settled = Put();
  p_.ends->BeginSettle(now_, Take(one_, settled), storage::EndState::kAcked,
                       storage::Durability::kBuffered);
  writes_.Then([this, settled](base::Now, bool) { p_.ends->FinishAll(settled.key); });
  const storage::MessageRef cancelled = PutListed(one_);
  writer_.Erase(cancelled.key, kTopic, cancelled.bytes, storage::Durability::kBuffered);
  const storage::MessageRef in_memory = Put();
  Ready(one_, in_memory);
  const storage::MessageRef not_due = Put({}, now_.wall_ms + 60'000);
  Commit();
  ASSERT_EQ(Row(settled.key, *one_)->state, RowState::kSettled);
  for (const storage::MessageRef& message :
       {before_its_start, settled, cancelled, in_memory, not_due}) {
    Damage(message.key);
  }
  // The scheduler will offer this one.
  const storage::MessageRef not_listed = Put();
  EXPECT_TRUE(p_.fill->OnDamage(now_, one_));
  FillAll();
  EXPECT_EQ(Listings(), 0u);
  EXPECT_FALSE(Listed(not_listed.key, *one_));
  EXPECT_EQ(other->spills_in_flight, 0u);
}

TEST_F(DamagedBacklogTest, ARetryIsListedAtItsTime) {
  const storage::MessageRef message = Put();
  const uint64_t retry_ms = now_.wall_ms + 5'000;
  const storage::Progress row = {.state = RowState::kFailed, .attempts = 3, .retry_ms = retry_ms};
  core_.backlog.ListNew(message, one_, &row);
  Commit();
  const storage::MessageKey place = {.due_ms = retry_ms, .id = message.key.id};
  ASSERT_TRUE(Listed(place, *one_));
  Damage(place);
  EXPECT_TRUE(p_.fill->OnDamage(now_, one_));
  FillAll();
  EXPECT_EQ(ListingOf(place).attempts, 3u);
  EXPECT_EQ(ListingOf(place).due_ms, message.key.due_ms);
  EXPECT_EQ(Listings(), 1u);
}

TEST_F(DamagedBacklogTest, EachDamageIsFilledOnce) {
  const storage::MessageRef other = PutListed(one_);
  const storage::MessageRef hidden = PutListed(one_);
  Damage(hidden.key);
  EXPECT_TRUE(p_.fill->OnDamage(now_, one_));
  EXPECT_FALSE(p_.fill->OnDamage(now_, one_)) << "one is in progress";
  FillAll();
  EXPECT_FALSE(p_.fill->OnDamage(now_, one_));
  EXPECT_FALSE(one_->filling);
  EXPECT_EQ(StoredFillTime(*one_), 0u);
  Damage(other.key);
  EXPECT_TRUE(p_.fill->OnDamage(now_, one_));
  FillAll();
  EXPECT_TRUE(ListingOf(other.key).maybe_delivered);
}

TEST_F(DamagedBacklogTest, RetentionNoticesDamageBeforeItPassesIt) {
  const storage::MessageRef hidden = PutListed(one_);
  PutListed(one_);
  Damage(hidden.key);
  one_->state.settings.set_retention_ms(1'000);
  core_.subscriptions.CollectRetaining();
  Pass(2'000);
  p_.retention->Step(now_);
  EXPECT_TRUE(one_->filling);
  Commit();
  FillAll();
  EXPECT_TRUE(Listed(hidden.key, *one_));
  p_.retention->Step(now_);
  Commit();
  EXPECT_FALSE(Stored(hidden.key));
}

TEST_F(DamagedBacklogTest, ADeletedSubscriptionReleasesWhatItHides) {
  Subscription* const other = AddSubscription();
  const storage::SubscriptionId id = other->state.id;
  const storage::MessageRef hidden = PutListed(other);
  one_->state.start = scheduler_.NextId();
  disk_.DamageBacklog(0, id, hidden.key);
  other->state.deleting = true;
  other->topic->some_deleted = true;
  p_.release->Start(other);
  for (bool more = true; more;) {
    more = p_.release->Step(now_);
    more = p_.fill->Step() || more;
    more = Commit() || more;
  }
  EXPECT_EQ(core_.subscriptions.Find(id), nullptr);
  EXPECT_FALSE(Stored(hidden.key));
}

TEST_F(DamagedBacklogTest, AFillNeedsNoCounters) {
  const storage::MessageRef message = Put();
  disk_.DamageCounts(0, kTopic);
  Subscription* const added = AddSubscription();
  added->state.fill_until_ms = now_.wall_ms;
  p_.fill->Start(added);
  FillAll();
  EXPECT_TRUE(Listed(message.key, *added));
  EXPECT_FALSE(added->filling);
}

// What cannot be read in this run may be readable in the next one.
TEST_F(DamagedBacklogTest, AFillThatPassedAMessageIsRepeatedByTheNextRun) {
  const storage::MessageRef unreadable = Put();
  disk_.Damage(0, unreadable.key);
  ExpectFilledAgainByTheNextRun(unreadable);
}

TEST_F(DamagedBacklogTest, AFillThatPassedProgressIsRepeatedByTheNextRun) {
  const storage::MessageRef unreadable = Put();
  disk_.DamageProgress(0, unreadable.key, one_->state.id);
  ExpectFilledAgainByTheNextRun(unreadable);
}

// A damaged block covers places that were never written.
TEST_F(DamagedBacklogTest, AnOfferWithADamagedPlaceIsNewAndUncertain) {
  for (const bool room : {true, false}) {
    const storage::MessageRef message = Put();
    Damage(message.key);
    one_->forgot_delivered = true;
    if (room) {
      core_.backlog.FallBehind(one_, message.key);
      core_.backlog.Park(now_, one_, {.due_ms = now_.wall_ms + 60'000, .id = message.key.id});
    } else {
      core_.backlog.FallBehind(one_, message.key);
    }
    p_.offers->OnDue(now_, message);
    Commit();
    if (room) {
      const EntryIndex index = core_.table.Find(message.key.id, one_);
      ASSERT_NE(index, kNoEntry);
      EXPECT_TRUE(At(index).maybe_delivered);
    } else {
      EXPECT_TRUE(ListingOf(message.key).maybe_delivered);
    }
  }
}

TEST_F(DamagedBacklogTest, AStartThatMayMissABacklogBeginsBehind) {
  const storage::MessageRef hidden = PutListed(one_);
  Damage(hidden.key);
  Subscription* const other = AddSubscription();
  storage::Record named;
  named.type = storage::RecordType::kTopic;
  named.topic = storage::TopicId{7};
  named.value = "unnamed subscription only";
  writes_.Add(named, storage::Durability::kSynced);
  Commit();
  ASSERT_TRUE(core_.backlog.Recover().ok());
  const Subscription* const first = core_.subscriptions.Find(storage::SubscriptionId{7});
  ASSERT_NE(first, nullptr);
  for (const Subscription* const one : std::vector<const Subscription*>{one_, other, first}) {
    EXPECT_TRUE(one->backlog.behind());
    EXPECT_TRUE(one->forgot_delivered);
  }
}

}  // namespace
}  // namespace duetime::delivery
