// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/retention.h"

#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

class RetentionTest : public DeliveryWorld {
 protected:
  // The subscription keeps this many messages.
  void Bound(uint64_t messages) {
    one_->state.settings.set_retention_max_messages(messages);
    core_.subscriptions.CollectRetaining();
  }
  // A message whose first attempt failed, at the time of its next one: listed there, and in memory
  // as well.
  storage::MessageKey ListDelayed(uint64_t delay_ms) {
    const EntryIndex index = Take();
    At(index).attempts = 1;
    core_.backlog.ListAt(index, now_.wall_ms + delay_ms);
    core_.states.MakeDelayed(now_, index, delay_ms);
    Commit();
    return At(index).place();
  }
  // The same, on disk only.
  storage::MessageKey MoveToDisk(uint64_t delay_ms) {
    const EntryIndex index = Take();
    At(index).attempts = 1;
    core_.backlog.MoveToDiskAt(index, now_.wall_ms + delay_ms);
    const storage::MessageKey place = At(index).place();
    Commit();
    return place;
  }
  // Steps until there is nothing more to do now. Returns the number of steps, or kStepsMax.
  static constexpr size_t kStepsMax = 50;
  size_t StepToTheEnd() {
    for (size_t steps = 1; steps < kStepsMax; ++steps) {
      if (!p_.retention->Step(now_)) return steps;
      Commit();
    }
    return kStepsMax;
  }
};

TEST_F(RetentionTest, AHeldTopicKeepsItsMessages) {
  Bound(2);
  for (uint64_t i = 0; i < 5; ++i) MoveToDisk(20'000 + i);
  protocol::TopicCommand topic;
  topic.topic = one_->state.topic;
  auto settings = std::make_shared<protocol::TopicSettings>();
  settings->set_paused_by_restore(true);
  topic.settings = settings;
  p_.changes->SetTopic(now_, topic);
  EXPECT_EQ(StepToTheEnd(), 1u);
  EXPECT_EQ(one_->listed.count(), 5u);
  // The operator has released it.
  topic.settings = protocol::DefaultTopicSettings();
  p_.changes->SetTopic(now_, topic);
  StepToTheEnd();
  Commit();
  EXPECT_EQ(one_->listed.count(), 2u);
  EXPECT_EQ(one_->dropped, 3u);
}

TEST_F(RetentionTest, PassesListingsOfEntriesInMemory) {
  // More than two pages of listings that are not for Retention.
  constexpr uint64_t kDelayed = 500;
  Bound(2);
  const storage::MessageKey first = ListDelayed(10'000);
  for (uint64_t i = 1; i < kDelayed; ++i) ListDelayed(10'000 + i);
  std::vector<storage::MessageKey> places;
  for (uint64_t i = 0; i < 5; ++i) places.push_back(MoveToDisk(20'000 + i));
  core_.backlog.Park(now_, one_, first);
  ASSERT_EQ(one_->listed.count(), 5u);
  EXPECT_LE(StepToTheEnd(), kDelayed / 100) << "a step that finds nothing must not ask for another";
  Commit();
  EXPECT_EQ(one_->dropped, 3u);
  EXPECT_EQ(one_->listed.count(), 2u);
  EXPECT_FALSE(Listed(places[2], *one_));
  EXPECT_TRUE(Listed(places[3], *one_));
  EXPECT_EQ(core_.table.count(EntryState::kDelayed), kDelayed);
}

TEST_F(RetentionTest, DoesNotPassAMessageThatWasListedBehindItsWalk) {
  constexpr uint64_t kListed = 250;  // more than one page
  Bound(2);
  storage::MessageKey last;
  for (uint64_t i = 0; i < kListed; ++i) last = MoveToDisk(20'000 + i);
  EXPECT_TRUE(p_.retention->Step(now_));
  Commit();
  ASSERT_GT(one_->listed.count(), 2u);
  const storage::MessageKey behind = MoveToDisk(10'000);
  EXPECT_LT(StepToTheEnd(), kStepsMax);
  Commit();
  EXPECT_FALSE(Listed(behind, *one_)) << "it is the oldest, so it is given up before the others";
  EXPECT_TRUE(Listed(last, *one_));
  EXPECT_EQ(one_->dropped, kListed + 1 - 2);
}

}  // namespace
}  // namespace duetime::delivery
