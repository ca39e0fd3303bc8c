// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionFill and SubscriptionRelease: what a new subscription receives, and what a deleted
// one leaves.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/endings/message_ends.h"
#include "server/delivery/leases.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/protocol/subscription_state.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::Durability;
using storage::EndState;

class SubscriptionFillTest : public DeliveryWorld {
 protected:
  // A new subscription that asks for all messages.
  Subscription* AddFilled() {
    Subscription* const added = AddSubscription();
    added->state.fill_until_ms = now_.wall_ms;
    p_.fill->Start(added);
    return added;
  }
  size_t Listings(const Subscription& subscription) {
    storage::Page<storage::BacklogRef> page;
    EXPECT_TRUE(store_.ScanBacklog(0, subscription.state.id, {}, {.entries = 1'000}, &page).ok());
    return page.items.size();
  }
  void FillAll() {
    while (p_.fill->Step()) Commit();
    Commit();
  }
};

TEST_F(SubscriptionFillTest, ListsWhatIsDueInItsTopic) {
  const storage::MessageRef due = Put();
  const storage::MessageRef later = Put({}, now_.wall_ms + 1);
  Subscription* const added = AddFilled();
  EXPECT_TRUE(added->backlog.behind()) << "new messages come behind the fill";
  core_.subscriptions.Save(*added);
  FillAll();
  EXPECT_TRUE(Listed(due.key, *added));
  EXPECT_FALSE(Listed(later.key, *added)) << "it will be offered";
  EXPECT_FALSE(Listed(due.key, *one_));
  const std::string name = protocol::SubscriptionObjectName(added->state.id);
  const auto object = store_.GetObject(storage::ObjectKind::kSubscription, 0, name);
  EXPECT_EQ(protocol::DecodeSubscription(name, object->value())->fill_until_ms, 0u)
      << "the next start does not fill it again";
  EXPECT_EQ(Listings(*added), 1u);
}

TEST_F(SubscriptionFillTest, AStepListsASlice) {
  constexpr size_t kSlice = 200;
  for (size_t i = 0; i < kSlice + 1; ++i) Put();
  Subscription* const added = AddFilled();
  EXPECT_TRUE(p_.fill->Step());
  Commit();
  EXPECT_EQ(Listings(*added), kSlice);
  EXPECT_GT(added->state.fill_until_ms, 0u);
  FillAll();
  EXPECT_EQ(Listings(*added), kSlice + 1);
}

TEST_F(SubscriptionFillTest, AMessageInChangeIsListedAfterTheChange) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Ready(one_, message);
  Subscription* const added = AddFilled();
  const scheduler::KeyLocks::Name name(message.key.id);
  key_locks_.Acquire(name);
  EXPECT_FALSE(p_.fill->Step());
  key_locks_.Release(now_, name, /*ok=*/true);
  p_.ends->Drop(now_, index);
  EXPECT_FALSE(p_.fill->Step()) << "a settlement is in flight";
  Commit();
  FillAll();
  EXPECT_TRUE(Stored(message.key)) << "the new subscription was not asked yet";
  EXPECT_TRUE(Listed(message.key, *added));
}

// A crash interrupts a fill, which begins again; or a message is in memory already.
TEST_F(SubscriptionFillTest, NoMessageIsListedTwice) {
  const storage::MessageRef listed = Put();
  const storage::MessageRef settled = Put();
  const storage::MessageRef in_memory = Put();
  Subscription* const added = AddSubscription();
  core_.backlog.ListNew(listed, added, nullptr);
  p_.ends->BeginSettle(now_, Take(one_, settled), EndState::kAcked, Durability::kBuffered);
  writes_.Then([this, settled](base::Now, bool) { p_.ends->FinishAll(settled.key); });
  const EntryIndex index = Take(added, settled);
  p_.ends->BeginSettle(now_, index, EndState::kAcked, Durability::kBuffered);
  Ready(added, in_memory);
  Commit();
  ASSERT_EQ(Listings(*added), 1u);
  added->state.fill_until_ms = now_.wall_ms;
  p_.fill->Start(added);
  FillAll();
  EXPECT_EQ(Listings(*added), 1u);
  EXPECT_FALSE(Listed(in_memory.key, *added));
}

// ---- Release

class ReleaseTest : public SubscriptionFillTest {
 protected:
  void Delete(Subscription* subscription) {
    subscription->state.deleting = true;
    subscription->topic->some_deleted = true;
    p_.release->Start(subscription);
  }
  bool Gone(storage::SubscriptionId id) const { return core_.subscriptions.Find(id) == nullptr; }
  // Steps until nothing is left to do, with the commits in between.
  void ReleaseAll() {
    do {
      while (p_.release->Step(now_)) {
      }
    } while (Commit());
  }
};

TEST_F(ReleaseTest, WhatWaitsOnlyForTheSubscriptionEnds) {
  Subscription* const other = AddSubscription();
  const storage::SubscriptionId id = other->state.id;
  // The topic's first subscription started after these messages.
  const storage::MessageRef in_memory = Put();
  const storage::MessageRef in_flight = Put();
  const storage::MessageRef listed = PutListed(other);
  one_->state.start = scheduler_.NextId();
  Ready(other, in_memory);
  Attach(other);
  core_.leases.Begin(now_, core_.streams.Get(kStream), Take(other, in_flight));
  core_.streams.DismissAll(other, /*give_back=*/false);
  Delete(other);
  ReleaseAll();
  for (const storage::MessageRef& message : {in_memory, in_flight, listed}) {
    EXPECT_FALSE(Stored(message.key));
  }
  EXPECT_FALSE(Listed(listed.key, id));
  EXPECT_TRUE(Gone(id));
  EXPECT_EQ(one_->topic->subscriptions, std::vector<Subscription*>{one_});
  EXPECT_EQ(core_.backlog.behind(), 0u);
}

TEST_F(ReleaseTest, WhatOthersWantStays) {
  Subscription* const other = AddSubscription();
  const storage::SubscriptionId id = other->state.id;
  const storage::MessageRef message = Put();
  const storage::MessageRef listed = PutListed(other);
  Ready(one_, message);
  Ready(other, message);
  Delete(other);
  ReleaseAll();
  EXPECT_TRUE(Stored(message.key));
  EXPECT_TRUE(Stored(listed.key));
  EXPECT_FALSE(Listed(listed.key, id));
  EXPECT_EQ(core_.table.size(), 1u);
}

// The entry of the other subscription decides which one is the last.
TEST_F(ReleaseTest, AMessageThatAnotherIsSettlingEndsAfterTheCommit) {
  Subscription* const other = AddSubscription();
  const storage::SubscriptionId id = other->state.id;
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  Ready(other, message);
  p_.ends->BeginSettle(now_, index, EndState::kAcked, Durability::kBuffered);
  writes_.Then([this, index](base::Now, bool) { p_.ends->Finish(index); });
  Delete(other);
  EXPECT_FALSE(p_.release->Step(now_)) << "the commit brings the release back";
  EXPECT_EQ(other->counts.of(EntryState::kReady), 1u);
  ReleaseAll();
  EXPECT_FALSE(Stored(message.key));
  EXPECT_TRUE(Gone(id));
}

TEST_F(ReleaseTest, AFillEndsBeforeTheRelease) {
  const storage::MessageRef message = Put();
  one_->state.start = scheduler_.NextId();
  Subscription* const added = AddFilled();
  const storage::SubscriptionId id = added->state.id;
  Delete(added);
  EXPECT_FALSE(p_.release->Step(now_));
  EXPECT_FALSE(Gone(id));
  FillAll();
  ReleaseAll();
  EXPECT_TRUE(Gone(id));
  EXPECT_FALSE(Stored(message.key));
  EXPECT_FALSE(Listed(message.key, id));
}

TEST_F(ReleaseTest, ABlockedSubscriptionLetsTheNextOneGo) {
  Subscription* const second = AddSubscription();
  Subscription* const third = AddSubscription(2);
  const storage::SubscriptionId second_id = second->state.id;
  const storage::SubscriptionId third_id = third->state.id;
  const storage::MessageRef message = Put();
  Ready(second, message);
  const scheduler::KeyLocks::Name name(message.key.id);
  key_locks_.Acquire(name);
  Delete(second);
  Delete(third);
  EXPECT_FALSE(p_.release->Step(now_));
  for (int i = 0; i < 4 && !Gone(third_id); ++i) p_.release->Step(now_);
  EXPECT_TRUE(Gone(third_id));
  EXPECT_FALSE(Gone(second_id));
  key_locks_.Release(now_, name, /*ok=*/true);
  ReleaseAll();
  EXPECT_TRUE(Gone(second_id));
}

}  // namespace
}  // namespace duetime::delivery
