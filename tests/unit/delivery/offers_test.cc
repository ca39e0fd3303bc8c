// SPDX-License-Identifier: Apache-2.0
//
// Offers: a due message on its way to its subscriptions.
#include "server/delivery/offers.h"

#include <string>

#include "gtest/gtest.h"

#include "server/delivery/message_ends.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using storage::Durability;
using storage::EndState;
using State = storage::Progress::State;

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
    p_.subscriptions->Remove(subscription);
  }
};

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
  EXPECT_EQ(p_.table->size(), 0u);
  EXPECT_EQ(scheduler_.low_watermark()->held(), 0u);
  EXPECT_EQ(key_locks_.held(), 0u);
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
  const size_t held = scheduler_.low_watermark()->held();
  Offer(message);
  EXPECT_EQ(scheduler_.low_watermark()->held(), held + 1);
  const auto batch = writes_.Take();
  ASSERT_TRUE(batch.has_value());
  writes_.Complete(now_, batch->sequence, /*accepted=*/false);
  EXPECT_EQ(scheduler_.low_watermark()->held(), held + 1) << "nothing changes in a failed shard";
}

// What another subscription still wants stays.
TEST_F(OffersTest, AMessageThatIsBeingSettledIsStillOfferedToTheOthers) {
  Subscription* const other = AddSubscription();
  const storage::MessageRef message = Put();
  Settle(one_, message, EndState::kAcked);
  Offer(message);
  ASSERT_NE(p_.table->Find(message.key.id, other), kNoEntry);
  Offer(message);
  Commit();
  EXPECT_TRUE(Stored(message.key));
  ASSERT_TRUE(Row(message.key, *one_).has_value());
  EXPECT_EQ(Row(message.key, *one_)->state, State::kSettled);
  EXPECT_EQ(p_.table->size(), 1u);
  EXPECT_EQ(scheduler_.low_watermark()->held(), 1u) << "only by the entry";
}

}  // namespace
}  // namespace duetime::delivery
