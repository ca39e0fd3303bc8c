// SPDX-License-Identifier: Apache-2.0
//
// MemoryShare and Turns: which messages may be in memory, and which subscriptions have work.
#include "server/delivery/memory_share.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/pace/turns.h"

namespace duetime::delivery {
namespace {

constexpr size_t kDueMax = 10;
constexpr size_t kDueIdleMax = 3;
constexpr size_t kFrameMessages = 2;

ShardLimits SmallLimits() {
  ShardLimits limits;
  limits.due_max = kDueMax;
  limits.due_idle_max = kDueIdleMax;
  limits.frame_messages_max = kFrameMessages;
  return limits;
}

// Two subscriptions of one topic, of which one has a stream.
class MemoryShareTest : public testing::Test {
 protected:
  MemoryShareTest() {
    served_.topic = idle_.topic = &topic_;
    served_.streams = 1;
  }
  ~MemoryShareTest() override { share_.CheckInvariants(); }

  EntryIndex Add(Subscription* subscription) {
    const auto id = storage::MessageId::Make(/*epoch=*/1, ++added_, /*slot=*/0, /*due_ms=*/1);
    return table_.Insert({.due_ms = 1, .id = id}, subscription);
  }
  void Add(size_t count, Subscription* subscription) {
    for (size_t i = 0; i < count; ++i) Add(subscription);
  }

  Topic topic_;
  Subscription served_;
  Subscription idle_;
  PendingDeliveries table_;
  MemoryShare share_{SmallLimits(), &table_};

 private:
  uint64_t added_ = 0;
};

TEST_F(MemoryShareTest, OnlyASubscriptionWithStreamsTakesMoreThanTheIdleShare) {
  struct Case {
    const char* what;
    size_t served;
    size_t idle;
    bool served_fits;
    bool idle_fits;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing is in memory", 0, 0, true, true},
           {"each has its share", kDueIdleMax, kDueIdleMax, true, false},
           {"memory is almost full", kDueMax - 1, 0, true, true},
           {"memory is full, by the other", 0, kDueMax, true, false},
           {"memory is full, by this one", kDueMax, 0, false, false},
           {"twice as many are in memory", 0, 2 * kDueMax, false, false},
       }) {
    SCOPED_TRACE(c.what);
    PendingDeliveries table;
    std::swap(table_, table);
    served_.counts = idle_.counts = {};
    Add(c.served, &served_);
    Add(c.idle, &idle_);
    EXPECT_EQ(share_.FitsNew(served_), c.served_fits);
    EXPECT_EQ(share_.FitsNew(idle_), c.idle_fits);
  }
}

TEST_F(MemoryShareTest, APausedSubscriptionCountsAsIdle) {
  Add(kDueIdleMax, &served_);
  EXPECT_TRUE(share_.FitsNew(served_));
  served_.state.settings.set_paused(true);
  EXPECT_FALSE(share_.FitsNew(served_));
}

TEST_F(MemoryShareTest, NewMessagesStayBehindThoseOnDisk) {
  served_.backlog.FallBehind({});
  EXPECT_FALSE(share_.FitsNew(served_));
}

TEST_F(MemoryShareTest, AReservedPageTakesRoom) {
  Add(kDueIdleMax, &served_);
  share_.Reserve(kDueMax);
  EXPECT_FALSE(share_.full()) << "only entries count";
  EXPECT_EQ(share_.RoomToReadBack(), kDueMax - kDueIdleMax);
  EXPECT_FALSE(share_.FitsNew(served_));
  EXPECT_TRUE(share_.FitsReadBack(served_));
  share_.Reserve(share_.RoomToReadBack());
  EXPECT_EQ(share_.RoomToReadBack(), 0u);
  share_.Unreserve(2 * kDueMax - kDueIdleMax);
  EXPECT_TRUE(share_.FitsNew(served_));
}

TEST_F(MemoryShareTest, FullMemoryLeavesEachSubscriptionItsIdleShareToReadBack) {
  Add(kDueMax - kDueIdleMax, &idle_);
  Add(kDueIdleMax - 1, &served_);
  EXPECT_FALSE(share_.full());
  EXPECT_TRUE(share_.FitsReadBack(idle_));
  Add(&idle_);
  EXPECT_TRUE(share_.full());
  EXPECT_FALSE(share_.FitsReadBack(idle_));
  EXPECT_TRUE(share_.FitsReadBack(served_));
}

TEST_F(MemoryShareTest, EntriesThatWaitForTheirOrderingKeyTakeHalfAtMostBesideTheOthers) {
  EXPECT_EQ(share_.RoomToWait(), kDueMax / 2);
  for (size_t waiting = 1; waiting <= kDueMax / 2; ++waiting) {
    table_.SetState(Add(&served_), EntryState::kBlocked);
    EXPECT_EQ(share_.RoomToWait(), kDueMax / 2 - waiting);
  }
  Add(kDueMax - 1, &idle_);
  EXPECT_FALSE(share_.full());
  EXPECT_TRUE(share_.FitsReadBack(served_));
  Add(&idle_);
  EXPECT_TRUE(share_.full());
  EXPECT_TRUE(share_.FitsReadBack(served_)) << "its waiting entries are not of its share";
}

TEST_F(MemoryShareTest, WhileTheRestOfAKeyIsUnreadNewMessagesGoToDisk) {
  EXPECT_TRUE(share_.FitsNew(served_));
  served_.order.AddToRest(/*key=*/1, {});
  EXPECT_TRUE(served_.order.wants_read());
  EXPECT_FALSE(share_.FitsNew(served_));
}

// ---- Turns

class TurnsTest : public MemoryShareTest {
 protected:
  TurnsTest() {
    for (Subscription* const one : {&served_, &idle_}) {
      one->streams = 1;
      one->available.push_back(&stream_);
      one->ready.count = 1;
    }
  }

  Stream stream_;
  Turns turns_{SmallLimits(), &share_};
};

TEST_F(TurnsTest, EachSubscriptionIsQueuedOnceAndInTurn) {
  turns_.Serve(&served_);
  turns_.Serve(&idle_);
  turns_.Serve(&served_);
  EXPECT_EQ(turns_.to_serve(), 2u);
  EXPECT_EQ(turns_.NextToServe(), &served_);
  turns_.Serve(&served_);
  EXPECT_EQ(turns_.NextToServe(), &idle_);
  EXPECT_EQ(turns_.NextToServe(), &served_);
  EXPECT_EQ(turns_.to_serve(), 0u);
}

TEST_F(TurnsTest, ASubscriptionThatCannotBeServedIsNotQueued) {
  struct Case {
    const char* what;
    std::function<void(Subscription*)> change;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing is ready", [](Subscription* s) { s->ready.count = 0; }},
           {"no stream has credit", [](Subscription* s) { s->available.clear(); }},
           {"it waits for its pace",
            [](Subscription* s) { s->pacing.waits_for = protocol::WaitReason::kRate; }},
           {"it is paused", [](Subscription* s) { s->state.settings.set_paused(true); }},
       }) {
    SCOPED_TRACE(c.what);
    Subscription one;
    one.topic = &topic_;
    one.streams = 1;
    one.available.push_back(&stream_);
    one.ready.count = 1;
    EXPECT_TRUE(Turns::CanServe(one));
    c.change(&one);
    turns_.Serve(&one);
    EXPECT_EQ(turns_.to_serve(), 0u);
    EXPECT_FALSE(one.serve_queued);
    Turns::CheckInvariants(one);
  }
}

TEST_F(TurnsTest, ASubscriptionThatCannotBeReadBackIsNotQueued) {
  struct Case {
    const char* what;
    std::function<void(Subscription*)> change;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing is on disk", [](Subscription* s) { s->backlog.Clear(); }},
           {"what is on disk is for later", [](Subscription* s) { s->backlog.Park({}); }},
           {"a page waits for its claim", [](Subscription* s) { s->reading = true; }},
           {"no stream has credit", [](Subscription* s) { s->available.clear(); }},
           {"a message is on its way to disk", [](Subscription* s) { s->forgets_in_flight = 1; }},
           {"it is paused", [](Subscription* s) { s->state.settings.set_paused(true); }},
           {"it is being deleted", [](Subscription* s) { s->state.deleting = true; }},
           {"a frame is ready", [](Subscription* s) { s->ready.count = kFrameMessages; }},
           {"the rest of a key waits for what is ready",
            [](Subscription* s) {
              s->order.AddToRest(/*key=*/1, {});
              s->ready.count = 1;
            }},
       }) {
    SCOPED_TRACE(c.what);
    Subscription one;
    one.topic = &topic_;
    one.streams = 1;
    one.available.push_back(&stream_);
    one.backlog.FallBehind({});
    EXPECT_TRUE(Turns::CanReadBack(one));
    c.change(&one);
    turns_.ReadBack(&one);
    EXPECT_FALSE(one.read_queued);
  }
  EXPECT_FALSE(turns_.any_to_read_back());
}

TEST_F(TurnsTest, WithoutRoomNothingIsReadBack) {
  served_.backlog.FallBehind({});
  idle_.backlog.FallBehind({});
  Add(kDueMax, &idle_);
  turns_.ReadBack(&idle_);
  turns_.ReadBack(&served_);
  EXPECT_FALSE(idle_.read_queued) << "it has more than its share";
  EXPECT_TRUE(turns_.any_to_read_back());
  share_.Reserve(share_.RoomToReadBack());
  EXPECT_FALSE(turns_.any_to_read_back()) << "the queue waits for room";
  share_.Unreserve(kDueMax);
  EXPECT_EQ(turns_.NextToReadBack(), &served_);
  EXPECT_FALSE(served_.read_queued);
}

TEST_F(TurnsTest, TheRoomThatAnotherLeavesIsUsed) {
  served_.backlog.FallBehind({});
  Add(kDueIdleMax, &served_);
  Add(kDueMax - kDueIdleMax - 1, &idle_);
  const EntryIndex last = Add(&idle_);
  turns_.ReadBack(&served_);
  turns_.ReadBack(&served_);
  turns_.ReadBackIfRoom();
  EXPECT_FALSE(turns_.any_to_read_back()) << "memory is full";
  table_.Remove(last);
  turns_.ReadBackIfRoom();
  EXPECT_TRUE(turns_.any_to_read_back());
  EXPECT_EQ(turns_.NextToReadBack(), &served_);
  turns_.ReadBackIfRoom();
  EXPECT_FALSE(turns_.any_to_read_back()) << "it was queued once";
}

TEST_F(TurnsTest, ASubscriptionThatIsGoneDoesNotWaitForRoom) {
  idle_.ready.count = 0;
  idle_.backlog.FallBehind({});
  Add(kDueMax, &idle_);
  turns_.ReadBack(&idle_);
  EXPECT_TRUE(idle_.room_queued);
  turns_.Forget(&idle_);
  PendingDeliveries empty;
  std::swap(table_, empty);
  turns_.ReadBackIfRoom();
  EXPECT_FALSE(idle_.read_queued);
}

}  // namespace
}  // namespace duetime::delivery
