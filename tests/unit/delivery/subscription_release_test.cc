// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionChanges and SubscriptionRelease: nothing is left of a deleted subscription.
#include "server/delivery/subscriptions/subscription_release.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/clean_stop.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using protocol::SubscriptionCommand;
using storage::SubscriptionId;

constexpr uint32_t kSecond = uint32_t{1} << 31;

class SubscriptionReleaseTest : public DeliveryWorld {
 protected:
  void Change(SubscriptionCommand::Kind kind, SubscriptionId id) {
    SubscriptionCommand command;
    command.kind = kind;
    command.from_now = true;
    command.state.id = id;
    command.state.topic = kTopic;
    command.state.name = "one";
    p_.changes->Change(now_, std::move(command));
    Commit();
    effects_.replies.clear();
  }
  Subscription* Create(SubscriptionId id) {
    Change(SubscriptionCommand::Kind::kCreate, id);
    return core_.subscriptions.Find(id);
  }
  // Deletes the subscription, and goes on until nothing is left to do.
  void Delete(SubscriptionId id) {
    Change(SubscriptionCommand::Kind::kDelete, id);
    do {
      while (p_.release->Step(now_)) {
      }
    } while (Commit());
  }
  void Attach(Subscription* subscription) {
    core_.streams.Attach({.stream = kStream,
                          .topic = kTopic,
                          .subscription = subscription->state.id,
                          .lease_ms = 1'000,
                          .credit = std::make_shared<protocol::StreamCredit>(100, 1'000'000)},
                         subscription);
    core_.streams.MakeAvailable(core_.streams.Get(kStream));
  }
  std::vector<storage::ObjectRef> Objects() {
    std::vector<storage::ObjectRef> objects;
    EXPECT_TRUE(
        store_.ScanObjects(storage::ObjectKind::kSubscription, 0, "", 100'000, &objects).ok());
    return objects;
  }
};

TEST_F(SubscriptionReleaseTest, NothingIsLeftOfManySubscriptions) {
  const auto pace = std::make_shared<protocol::TopicPace>();
  protocol::TopicCommand topic;
  topic.topic = kTopic;
  topic.pace = pace;
  p_.changes->SetTopic(now_, topic);
  for (uint32_t i = 0; i < 10'000; ++i) {
    Subscription* const subscription = Create(SubscriptionId{kSecond + i});
    if (i % 100 == 0) {
      Attach(subscription);
      Ready(subscription, Put());
    }
    Delete(SubscriptionId{kSecond + i});
  }
  EXPECT_EQ(core_.subscriptions.size(), 1u);
  EXPECT_EQ(one_->topic->subscriptions.size(), 1u);
  EXPECT_EQ(Objects().size(), 1u) << "it says that there were several";
  EXPECT_LE(pace->clocks(), 20u);
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_EQ(core_.streams.size(), 0u);
  EXPECT_EQ(core_.timers.size(), 0u);
}

TEST_F(SubscriptionReleaseTest, TurnsAndTimersForgetTheSubscription) {
  constexpr SubscriptionId kId{kSecond};
  Subscription* const subscription = Create(kId);
  Attach(subscription);
  Ready(subscription, Put());
  core_.timers.WakeAt(now_.mono_ms + 1'000, subscription);
  ASSERT_EQ(core_.turns.to_serve(), 1u);
  Delete(kId);
  EXPECT_EQ(core_.subscriptions.Find(kId), nullptr);
  EXPECT_EQ(core_.turns.to_serve(), 0u);
  EXPECT_EQ(core_.timers.size(), 0u);
  // Commands that come late are for nothing.
  Change(SubscriptionCommand::Kind::kUpdate, kId);
  Change(SubscriptionCommand::Kind::kDelete, kId);
  EXPECT_EQ(core_.subscriptions.size(), 1u);
}

// A cancel must know of the delivery, but the record of a message that is gone would stay for ever.
TEST_F(SubscriptionReleaseTest, ACleanStopKeepsTheAttemptsOfMessagesThatExist) {
  Subscription* const other = AddSubscription();
  for (const bool exists : {true, false}) {
    const storage::MessageRef message = Put();
    const EntryIndex index = Take(other, message);
    At(index).attempts = 2;
    core_.states.MakeReady(index);
    other->state.deleting = true;
    if (!exists) writer_.Erase(message.key, kTopic, message.bytes, storage::Durability::kBuffered);
    Commit();
    CleanStop stop(core_, p_.ends, p_.retries);
    while (stop.Step(now_)) {
    }
    Commit();
    EXPECT_EQ(Row(message.key, *other).has_value(), exists);
    p_.ends->DropStale(index);
  }
}

TEST_F(SubscriptionReleaseTest, TheNextRunKnowsThatThereWereSeveral) {
  // Messages of the first subscription stay, for the second one.
  Create(one_->state.id);
  Create(SubscriptionId{kSecond});
  Delete(one_->state.id);
  Create(SubscriptionId{kSecond + 1});
  Delete(SubscriptionId{kSecond + 1});
  EXPECT_EQ(Objects().size(), 2u) << "the second one, and a deleted one";
  DeliveryAssembly next(Parts(), &scheduler_);
  const auto found = next.core().subscriptions.Recover(now_);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->size(), 1u);
  EXPECT_TRUE(found->front()->topic->several);
  EXPECT_TRUE(found->front()->topic->some_deleted);
}

}  // namespace
}  // namespace duetime::delivery
