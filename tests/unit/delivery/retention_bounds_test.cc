// SPDX-License-Identifier: Apache-2.0
//
// Retention: bounds by age and by number.
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/endings/retention.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

constexpr uint64_t kRetentionMs = 1'000;

class RetentionBoundsTest : public DeliveryWorld {
 protected:
  RetentionBoundsTest() { p_.lease_ends->Step(now_); }  // the step's budget of dead letters

  void Keep(uint64_t retention_ms, uint64_t messages_max) {
    one_->state.settings.set_retention_ms(retention_ms);
    one_->state.settings.set_retention_max_messages(messages_max);
    core_.subscriptions.CollectRetaining();
  }
  std::vector<storage::MessageRef> Ready(size_t count) {
    std::vector<storage::MessageRef> messages;
    for (size_t i = 0; i < count; ++i) {
      messages.push_back(Put());
      DeliveryWorld::Ready(one_, messages.back());
    }
    return messages;
  }
  // Steps until there is nothing to do.
  void StepAll() {
    while (p_.retention->Step(now_)) Commit();
    Commit();
  }
};

TEST_F(RetentionBoundsTest, AMessageIsTooOldAfterItsRetention) {
  struct Case {
    uint64_t retention_ms;
    uint64_t waited_ms;
    bool too_old;
  };
  const uint64_t due_ms = now_.wall_ms;
  const EntryIndex index = DeliveryWorld::Ready(one_, Put());
  for (const Case& c : {Case{0, 1'000'000, false}, Case{10, 10, false}, Case{10, 11, true}}) {
    one_->state.settings.set_retention_ms(c.retention_ms);
    const base::Now now = {.wall_ms = due_ms + c.waited_ms, .mono_ms = now_.mono_ms};
    EXPECT_EQ(Retention::TooOld(now, At(index)), c.too_old) << c.retention_ms << " " << c.waited_ms;
  }
}

TEST_F(RetentionBoundsTest, OldMessagesGoWithoutStreams) {
  Keep(kRetentionMs, 0);
  const auto old = Ready(2);
  Pass(kRetentionMs);
  const auto young = Ready(1);
  StepAll();
  EXPECT_EQ(one_->dropped, 0u);
  Pass(1);
  StepAll();
  EXPECT_FALSE(Stored(old[0].key));
  EXPECT_FALSE(Stored(old[1].key));
  EXPECT_TRUE(Stored(young[0].key));
  EXPECT_EQ(one_->dropped, 2u);
}

TEST_F(RetentionBoundsTest, OfTooManyTheOldestGo) {
  Keep(0, 3);
  const auto ready = Ready(2);
  std::vector<storage::MessageRef> listed;
  for (int i = 0; i < 4; ++i) listed.push_back(PutListed(one_));
  EXPECT_TRUE(p_.retention->TooMany(*one_));
  StepAll();
  EXPECT_FALSE(p_.retention->TooMany(*one_));
  EXPECT_FALSE(Stored(ready[0].key)) << "what is ready is older";
  EXPECT_FALSE(Stored(ready[1].key));
  EXPECT_FALSE(Stored(listed[0].key));
  for (size_t i = 1; i < listed.size(); ++i) EXPECT_TRUE(Stored(listed[i].key)) << i;
  EXPECT_FALSE(Listed(listed[0].key, *one_));
  EXPECT_EQ(one_->listed.count(), 3u);
}

TEST_F(RetentionBoundsTest, AWalkCountsWhatAnEarlierRunListed) {
  Keep(0, 2);
  for (int i = 0; i < 3; ++i) PutListed(one_);
  one_->listed.Forget();
  EXPECT_FALSE(p_.retention->TooMany(*one_)) << "the number is not known";
  EXPECT_TRUE(p_.retention->Step(now_));
  StepAll();
  EXPECT_TRUE(one_->listed.known());
  EXPECT_EQ(one_->listed.count(), 2u);
  EXPECT_EQ(one_->dropped, 1u);
}

TEST_F(RetentionBoundsTest, AMessageInChangeWaits) {
  Keep(kRetentionMs, 0);
  const auto messages = Ready(1);
  Pass(kRetentionMs + 1);
  const scheduler::KeyLocks::Name name(messages[0].key.id);
  key_locks_.Acquire(name);
  EXPECT_FALSE(p_.retention->Step(now_));
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u);
  key_locks_.Release(now_, name, /*ok=*/true);
  StepAll();
  EXPECT_FALSE(Stored(messages[0].key));
}

TEST_F(RetentionBoundsTest, ADeadLetterNeedsItsTopic) {
  Keep(kRetentionMs, 0);
  one_->state.settings.set_retention_policy(protocol::SubscriptionSettings::DEAD_LETTER);
  const auto messages = Ready(1);
  Pass(kRetentionMs + 1);
  EXPECT_FALSE(p_.retention->Step(now_));
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u) << "nothing has changed";
  one_->topic->dead_letter = kDeadLetters;
  StepAll();
  EXPECT_FALSE(Stored(messages[0].key));
  EXPECT_EQ(stats_.dead_lettered, 1u);
  EXPECT_EQ(TombstoneOf(messages[0].key.id)->state, storage::EndState::kDeadLettered);
}

// Damage concerns one message: the ones behind it are dropped as well.
TEST_F(RetentionBoundsTest, ADamagedMessageDoesNotStopTheOthers) {
  const auto messages = Ready(3);
  disk_.Damage(0, messages[0].key);
  Keep(0, 1);
  StepAll();
  EXPECT_TRUE(core_.reader.ok());
  EXPECT_EQ(one_->ready.count, 1u);
  EXPECT_FALSE(Stored(messages[1].key));
  EXPECT_TRUE(Stored(messages[2].key));
  EXPECT_TRUE(storage::IsDamage(store_.Get(0, messages[0].key).status())) << "its record stays";
}

}  // namespace
}  // namespace duetime::delivery
