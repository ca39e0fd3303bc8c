// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/pending_deliveries.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_record.h"

namespace duetime::delivery {
namespace {

storage::MessageKey KeyAt(uint64_t due_ms, uint64_t low) {
  return {.due_ms = due_ms, .id = {.high = 1, .low = low}};
}

class PendingDeliveriesTest : public ::testing::Test {
 protected:
  ~PendingDeliveriesTest() override { table_.CheckInvariants(); }
  // In the order of the list.
  std::vector<EntryIndex> Listed(const EntryList& list) const {
    std::vector<EntryIndex> found;
    for (EntryIndex i = list.head; i != kNoEntry; i = table_[i].next) found.push_back(i);
    EXPECT_EQ(found.size(), list.count);
    return found;
  }

  PendingDeliveries table_;
  Subscription one_;
  Subscription other_;
};

TEST_F(PendingDeliveriesTest, FindsAnEntryByMessageAndSubscription) {
  const EntryIndex first = table_.Insert(KeyAt(5, 1), &one_);
  const EntryIndex second = table_.Insert(KeyAt(7, 1), &other_);
  EXPECT_EQ(table_.Find({.high = 1, .low = 1}, &one_), first);
  EXPECT_EQ(table_.Find({.high = 1, .low = 1}, &other_), second);
  EXPECT_EQ(table_.FindAt(KeyAt(7, 1)), second);
  EXPECT_EQ(table_.FindAt(KeyAt(7, 1), &one_), kNoEntry) << "it is at another place";
  EXPECT_EQ(table_.Find({.high = 1, .low = 2}), kNoEntry);
  table_.Remove(second);
  EXPECT_EQ(table_.Find({.high = 1, .low = 1}), first);
  table_.Remove(first);
  EXPECT_EQ(table_.Find({.high = 1, .low = 1}), kNoEntry);
}

TEST_F(PendingDeliveriesTest, RemovesTheMiddleOfSiblings) {
  Subscription third;
  table_.Insert(KeyAt(5, 1), &one_);
  const EntryIndex middle = table_.Insert(KeyAt(5, 1), &other_);
  table_.Insert(KeyAt(5, 1), &third);
  table_.Remove(middle);
  table_.CheckInvariants();
  EXPECT_NE(table_.Find({.high = 1, .low = 1}, &one_), kNoEntry);
  EXPECT_NE(table_.Find({.high = 1, .low = 1}, &third), kNoEntry);
  table_.Remove(table_.Find({.high = 1, .low = 1}, &third));
}

// More entries than are searched one by one.
TEST_F(PendingDeliveriesTest, FindsEachOfManySubscriptions) {
  constexpr size_t kMany = 30;
  const storage::MessageKey key = KeyAt(5, 1);
  std::vector<Subscription> many(kMany);
  std::vector<EntryIndex> entries;
  for (Subscription& one : many) {
    entries.push_back(table_.Insert(key, &one));
    table_.CheckInvariants();
  }
  EXPECT_EQ(table_.FindAt(key, &one_), kNoEntry);
  // The newest, the oldest, and then the others.
  for (size_t i = 0; i < kMany; ++i) std::swap(entries[i], entries[(i * 7 + kMany - 1) % kMany]);
  for (const EntryIndex entry : entries) {
    const Subscription* const of = table_[entry].subscription;
    EXPECT_EQ(table_.FindAt(key, of), entry);
    table_.Remove(entry);
    EXPECT_EQ(table_.FindAt(key, of), kNoEntry);
    table_.CheckInvariants();
  }
  EXPECT_EQ(table_.Find(key.id), kNoEntry);
  table_.Remove(table_.Insert(key, &one_));
}

TEST_F(PendingDeliveriesTest, CountsByStateForTheShardAndTheSubscription) {
  const EntryIndex a = table_.Insert(KeyAt(5, 1), &one_);
  table_.Insert(KeyAt(5, 2), &other_);
  table_.SetState(a, EntryState::kReady);
  EXPECT_EQ(table_.size(), 2u);
  EXPECT_EQ(table_.count(EntryState::kReady), 1u);
  EXPECT_EQ(one_.counts.of(EntryState::kReady), 1u);
  EXPECT_EQ(other_.counts.of(EntryState::kTaken), 1u);
  table_.SetState(a, EntryState::kTaken);
  table_.Remove(a);
  EXPECT_EQ(one_.counts.total, 0u);
}

TEST_F(PendingDeliveriesTest, ListsKeepTheirOrder) {
  EntryList list;
  const EntryIndex a = table_.Insert(KeyAt(5, 1), &one_);
  const EntryIndex b = table_.Insert(KeyAt(5, 2), &one_);
  const EntryIndex c = table_.Insert(KeyAt(5, 3), &one_);
  table_.PushBack(&list, b);
  table_.PushBack(&list, c);
  table_.PushFront(&list, a);
  EXPECT_EQ(Listed(list), (std::vector<EntryIndex>{a, b, c}));
  table_.Unlink(&list, b);
  EXPECT_EQ(Listed(list), (std::vector<EntryIndex>{a, c}));
  table_.Unlink(&list, c);
  table_.Unlink(&list, a);
  EXPECT_EQ(list.head, kNoEntry);
  EXPECT_EQ(list.tail, kNoEntry);
}

TEST_F(PendingDeliveriesTest, LearnsWhatATombstoneNeeds) {
  storage::MessageRecord record;
  record.header = {.topic = storage::TopicId{3}, .deliver_ms = 40, .accept_ms = 30};
  record.key = "order-7";
  record.payload = "12345";
  const EntryIndex index = table_.Insert(KeyAt(40, 1), &one_);
  table_.Learn(index, storage::EncodeMessageRecord(record));
  EXPECT_TRUE(table_[index].seen);
  EXPECT_EQ(table_[index].deliver_ms, 40u);
  EXPECT_EQ(table_[index].accept_ms, 30u);
  EXPECT_EQ(table_[index].payload_bytes, 5u);
  ASSERT_NE(table_.DetailsOf(index), nullptr);
  EXPECT_EQ(table_.DetailsOf(index)->key, "order-7");
  table_.Remove(index);
  EXPECT_EQ(table_.DetailsOf(index), nullptr);
}

TEST_F(PendingDeliveriesTest, ADamagedRecordIsSeenAndNoMore) {
  const EntryIndex index = table_.Insert(KeyAt(40, 1), &one_);
  table_.Learn(index, "x");
  EXPECT_EQ(table_.DetailsOf(index)->revision, 1u) << "it may have a locator";
  EXPECT_TRUE(table_[index].seen);
  EXPECT_EQ(table_[index].record_bytes, 1u);
  // The block that holds the record cannot be read. The counters still need the size.
  table_[index].bytes = 77;
  table_.Learn(index, "");
  EXPECT_EQ(table_.DetailsOf(index)->revision, 1u) << "it may have a locator";
  EXPECT_EQ(table_[index].record_bytes, 77u);
}

TEST_F(PendingDeliveriesTest, GrowsAndUsesPlacesAgain) {
  std::vector<EntryIndex> all;
  for (uint64_t i = 0; i < 1'000; ++i) all.push_back(table_.Insert(KeyAt(5, i), &one_));
  const EntryIndex capacity = table_.capacity();
  EXPECT_GE(capacity, 1'000u);
  for (const EntryIndex index : all) table_.Remove(index);
  for (uint64_t i = 0; i < 1'000; ++i) table_.Insert(KeyAt(6, i), &one_);
  EXPECT_EQ(table_.capacity(), capacity);
}

// From each state, where a move may lead; the rest is refused.
TEST_F(PendingDeliveriesTest, MovesFollowTheTable) {
  using S = EntryState;
  const std::vector<S> all = {S::kFree,    S::kTaken,   S::kReady,  S::kInFlight,
                              S::kDelayed, S::kBlocked, S::kEnding, S::kForgetting};
  ASSERT_EQ(all.size(), kEntryStates);
  const auto reach = [&all](S from) {
    std::vector<S> to;
    for (const S state : all) {
      if (MayFollow(from, state)) to.push_back(state);
    }
    return to;
  };
  for (const S leaf : {S::kFree, S::kReady, S::kInFlight, S::kDelayed}) {
    EXPECT_EQ(reach(leaf), std::vector<S>{S::kTaken});
  }
  EXPECT_EQ(reach(S::kBlocked), (std::vector<S>{S::kTaken, S::kReady}));
  EXPECT_EQ(reach(S::kEnding), std::vector<S>{S::kFree});
  EXPECT_EQ(reach(S::kForgetting), (std::vector<S>{S::kFree, S::kTaken}));
  EXPECT_EQ(reach(S::kTaken).size(), kEntryStates - 1);
  const EntryIndex index = table_.Insert(KeyAt(5, 1), &one_);
  table_.SetState(index, S::kEnding);
  EXPECT_DEATH(table_.SetState(index, S::kReady), "check failed");
}

TEST_F(PendingDeliveriesTest, ASubscriptionHasAMessageOnce) {
  table_.Insert(KeyAt(5, 1), &one_);
  EXPECT_DEATH(table_.Insert(KeyAt(9, 1), &one_), "check failed");
}

}  // namespace
}  // namespace duetime::delivery
