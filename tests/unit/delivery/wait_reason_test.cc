// SPDX-License-Identifier: Apache-2.0
//
// WaitReasonOf and MessageStatus: what a due message waits for.
#include "server/delivery/wait_reason.h"

#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/delivery_records.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

constexpr uint64_t kSomeOrder = 1;

using protocol::WaitReason;

class WaitReasonTest : public DeliveryWorld {
 protected:
  // What the status of the message says.
  WaitReason Of(const storage::MessageRef& message) {
    std::vector<protocol::SubscriptionStatus> list;
    EXPECT_TRUE(p_.status->StatusOf(now_, message.key, *one_->topic, &list).ok());
    return list.empty() ? WaitReason::kNone : list.front().wait_reason;
  }
};

TEST_F(WaitReasonTest, NamesTheFirstThingThatTheDeliveryWaitsFor) {
  struct Case {
    WaitReason wait_reason;
    std::function<void(Subscription*)> change;
  };
  Attach(one_);
  const auto available = one_->available;
  const storage::MessageRef message = Put();
  Ready(one_, message);
  EXPECT_EQ(Of(message), WaitReason::kNone);
  EXPECT_TRUE(Turns::CanServe(*one_));
  auto paused = std::make_shared<protocol::TopicSettings>();
  paused->set_paused(true);
  // Each change comes on top of those before it.
  for (const Case& c : std::vector<Case>{
           {WaitReason::kRate, [](Subscription* s) { s->pacing.waits_for = WaitReason::kRate; }},
           {WaitReason::kNoCredit, [](Subscription* s) { s->available.clear(); }},
           {WaitReason::kNoSubscriber, [](Subscription* s) { s->streams = 0; }},
           {WaitReason::kSubscriptionPaused,
            [](Subscription* s) { s->state.settings.set_paused(true); }},
           {WaitReason::kTopicPaused, [paused](Subscription* s) { s->topic->settings = paused; }},
       }) {
    c.change(one_);
    EXPECT_EQ(Of(message), c.wait_reason);
    EXPECT_FALSE(Turns::CanServe(*one_));
  }
  one_->streams = 1;
  one_->available = available;
  one_->pacing.waits_for = WaitReason::kNone;
}

TEST_F(WaitReasonTest, NamesTheStateOfAnEntry) {
  Attach(one_);
  const storage::MessageRef delayed = Put();
  core_.states.MakeDelayed(now_, Take(one_, delayed), /*delay_ms=*/500);
  EXPECT_EQ(Of(delayed), WaitReason::kRetry);
  const storage::MessageRef first = Put();
  const storage::MessageRef second = Put();
  ASSERT_EQ(core_.states.LockOrder(Take(one_, first), kSomeOrder), OrderingKeyLocks::Turn::kHolds);
  EXPECT_EQ(core_.states.LockOrder(Take(one_, second), kSomeOrder), OrderingKeyLocks::Turn::kWaits);
  core_.states.MakeReady(core_.table.Find(first.key.id, one_));
  EXPECT_EQ(Of(second), WaitReason::kOrderingKey);
}

TEST_F(WaitReasonTest, NamesTheHolderOfAnOrderingKeyInMemoryAndOnDisk) {
  Attach(one_);
  const uint64_t order = OrderingKeyLocks::HashOf("k");
  const auto put = [this] {
    storage::MessageRecord record;
    record.ordering_key = "k";
    return Put(std::move(record));
  };
  const storage::MessageRef first = put();
  const storage::MessageRef second = put();
  const storage::MessageRef third = put();
  ASSERT_EQ(core_.states.LockOrder(Take(one_, first), order), OrderingKeyLocks::Turn::kHolds);
  ASSERT_EQ(core_.states.LockOrder(Take(one_, second), order), OrderingKeyLocks::Turn::kWaits);
  core_.states.MakeReady(core_.table.Find(first.key.id, one_));
  core_.backlog.AddToRest(Take(one_, third), order);
  Commit();
  EXPECT_EQ(core_.table.Find(third.key.id, one_), kNoEntry);
  EXPECT_FALSE(one_->backlog.behind()) << "the rest is read when the key is free";
  for (const storage::MessageRef& message : {second, third}) {
    std::vector<protocol::SubscriptionStatus> list;
    ASSERT_TRUE(p_.status->StatusOf(now_, message.key, *one_->topic, &list).ok());
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].wait_reason, WaitReason::kOrderingKey);
    EXPECT_EQ(list[0].holder, first.key.id);
  }
  p_.changes->Inspect({.subscription = one_->state.id});
  const auto reply = std::get<protocol::InspectSubscriptionReply>(effects_.replies.back());
  ASSERT_TRUE(reply.gauges.longest_key.has_value());
  EXPECT_EQ(reply.gauges.longest_key->ordering_key, "k");
  EXPECT_EQ(reply.gauges.longest_key->holder, first.key.id);
  EXPECT_EQ(reply.gauges.longest_key->waiting, 1u);
  EXPECT_TRUE(reply.gauges.longest_key->on_disk);
}

TEST_F(WaitReasonTest, NamesTheBacklogIfNothingElseHoldsItsMessages) {
  const storage::MessageRef message = PutListed(one_);
  EXPECT_EQ(Of(message), WaitReason::kNoSubscriber);
  Attach(one_);
  EXPECT_EQ(Of(message), WaitReason::kBacklog);
}

TEST_F(WaitReasonTest, NamesTheRetryOfAMessageOnDisk) {
  const storage::MessageRef message = Put();
  AddSubscription();  // so that the store has progress records
  core_.records.PutProgress(
      message.key, one_->state.id,
      {.state = storage::Progress::State::kFailed, .attempts = 1, .retry_ms = now_.wall_ms + 500});
  Commit();
  EXPECT_EQ(Of(message), WaitReason::kRetry);
}

}  // namespace
}  // namespace duetime::delivery
