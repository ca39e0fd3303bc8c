// SPDX-License-Identifier: Apache-2.0
//
// Backlog and BacklogReader: to disk and back.
#include "server/delivery/backlog/backlog.h"

#include "gtest/gtest.h"

#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/pace/turns.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

class BacklogTest : public DeliveryWorld {
 protected:
  // Without a stream nothing is read back.
  void Attach() { DeliveryWorld::Attach(one_); }
  storage::MessageRef List() { return PutListed(one_); }
  void ReadPage() { EXPECT_TRUE(p_.backlog_reader->ReadPage(now_, one_).ok()); }
};

using BacklogReaderTest = BacklogTest;

TEST_F(BacklogTest, ANewMessageHoldsTheLowWatermarkUntilItIsListed) {
  const storage::MessageRef message = Put();
  core_.backlog.ListNew(message, one_, nullptr);
  EXPECT_TRUE(one_->backlog.behind());
  EXPECT_EQ(core_.backlog.behind(), 1u);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 1u);
  Commit();
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
  EXPECT_TRUE(Listed(message.key, *one_));
  EXPECT_EQ(one_->spills_in_flight, 0u);
}

TEST_F(BacklogTest, AnEntryLeavesMemoryWhenItsListingIsCommitted) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  core_.backlog.MoveToDisk(index);
  EXPECT_EQ(At(index).state, EntryState::kForgetting);
  EXPECT_EQ(one_->forgets_in_flight, 1u);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_TRUE(Listed(message.key, *one_));
}

// The listing of an entry that is gone is not that of the entry that has its index now.
TEST_F(BacklogTest, AnEntryThatIsOfferedAgainHoldsTheLowWatermark) {
  const storage::MessageRef message = Put();
  const EntryIndex first = Ready(one_, message);
  core_.backlog.List(first);
  p_.ends->DropStale(first);
  const EntryIndex again = Ready(one_, message);
  ASSERT_EQ(again, first);
  Commit();
  EXPECT_TRUE(At(again).pinned);
}

TEST_F(BacklogTest, AnEntryThatEndsMeanwhileIsNotTouched) {
  const EntryIndex index = Take();
  core_.backlog.MoveToDisk(index);
  p_.ends->Drop(now_, index);
  EXPECT_EQ(At(index).state, EntryState::kEnding);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_EQ(one_->forgets_in_flight, 0u);
}

TEST_F(BacklogTest, AListedEntryStaysInMemoryAndHoldsNothing) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  core_.states.MakeReady(index);
  core_.backlog.List(index);
  Commit();
  EXPECT_EQ(At(index).state, EntryState::kReady);
  EXPECT_FALSE(At(index).pinned);
  EXPECT_FALSE(one_->backlog.any());
  core_.backlog.Unlist(index);
  Commit();
  EXPECT_FALSE(Listed(message.key, *one_));
}

TEST_F(BacklogTest, TheCommitOfAnEarlierListingLeavesTheEntryInMemory) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  core_.backlog.List(index);
  const auto earlier = writes_.Take();
  ASSERT_TRUE(earlier.has_value());
  core_.backlog.MoveToDisk(index);
  writes_.Complete(now_, earlier->sequence, true);
  EXPECT_EQ(At(index).state, EntryState::kForgetting);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
}

TEST_F(BacklogTest, AnotherPlaceReplacesTheListing) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  core_.backlog.List(index);
  const uint64_t later_ms = now_.wall_ms + 5'000;
  core_.backlog.MoveToDiskAt(index, later_ms);
  Commit();
  EXPECT_FALSE(Listed(message.key, *one_));
  EXPECT_TRUE(Listed({.due_ms = later_ms, .id = message.key.id}, *one_));
}

TEST_F(BacklogTest, ALongWaitOfAnEarlierRunEndsAtItsTimeByTheWallClock) {
  // The earlier run's clock was ahead.
  constexpr uint64_t kWaitMs = 3'600'000;
  Attach();
  const storage::MessageRef message = Put();
  const storage::Progress row = {.state = storage::Progress::State::kFailed,
                                 .attempts = 1,
                                 .retry_ms = now_.wall_ms + kWaitMs};
  p_.retries->ResumeDelay(now_, Take(one_, message), row);
  Commit();
  ReadPage();
  EXPECT_EQ(one_->backlog.parked(), (storage::MessageKey{row.retry_ms, message.key.id}));
  now_.wall_ms += kWaitMs;  // the clock is set right, and no time passes
  p_.pacing->CheckAgain(now_, one_);
  ReadPage();
  Commit();
  EXPECT_EQ(one_->ready.count, 1u);
}

TEST_F(BacklogTest, AShortWaitOfAnEarlierRunGoesOnInMemory) {
  const EntryIndex index = Take();
  p_.retries->ResumeDelay(now_, index,
                          {.state = storage::Progress::State::kFailed,
                           .attempts = 1,
                           .retry_ms = now_.wall_ms + 60'000});
  EXPECT_EQ(At(index).state, EntryState::kDelayed);
}

TEST_F(BacklogTest, OldEntriesAreListed) {
  Attach();
  const storage::MessageRef message = Put();
  Ready(one_, message);
  core_.backlog.CollectOld(now_);
  EXPECT_FALSE(core_.backlog.ListOld());
  EXPECT_EQ(stats_.spilled, 0u);
  Pass(2 * limits_.spill_age_ms);
  core_.backlog.CollectOld(now_);
  EXPECT_FALSE(core_.backlog.ListOld());
  Commit();
  EXPECT_TRUE(Listed(message.key, *one_));
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u) << "a stream may take it from memory";
}

TEST_F(BacklogTest, OldReadyEntriesOfNoStreamLeaveMemory) {
  Ready(one_, Put());
  Ready(one_, Put());
  Pass(2 * limits_.spill_age_ms);
  core_.backlog.CollectOld(now_);
  EXPECT_FALSE(core_.backlog.ListOld());
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
}

TEST_F(BacklogReaderTest, APageIsClaimedBeforeItIsReady) {
  const storage::MessageRef first = List();
  const storage::MessageRef second = List();
  Attach();
  ReadPage();
  EXPECT_TRUE(one_->reading);
  EXPECT_EQ(core_.table.size(), 0u);
  Commit();
  EXPECT_FALSE(one_->reading);
  EXPECT_EQ(store_.BacklogClaim(0, one_->state.id)->value(), second.key);
  EXPECT_EQ(At(one_->ready.head).key(), first.key);
  EXPECT_EQ(At(one_->ready.tail).key(), second.key);
  ReadPage();
  EXPECT_FALSE(one_->backlog.any()) << "nothing is left";
}

TEST_F(BacklogReaderTest, AnOlderListingMakesThePageWait) {
  const storage::MessageRef older = Put();
  List();
  Attach();
  ReadPage();
  core_.backlog.ListNew(older, one_, nullptr);
  Commit();
  EXPECT_EQ(core_.table.size(), 0u);
  ReadPage();
  Commit();
  EXPECT_EQ(At(one_->ready.head).key(), older.key);
}

TEST_F(BacklogReaderTest, TheNextAttemptsTimeParksTheBacklog) {
  const EntryIndex index = Take();
  At(index).attempts = 1;
  core_.backlog.MoveToDiskAt(index, now_.wall_ms + 500);
  Commit();
  Attach();
  ReadPage();
  EXPECT_FALSE(one_->backlog.behind());
  EXPECT_TRUE(one_->backlog.parked().has_value());
  EXPECT_FALSE(one_->wake.none());
  Pass(500);
  core_.backlog.Unpark(now_, one_);
  EXPECT_TRUE(one_->backlog.behind());
  ReadPage();
  Commit();
  EXPECT_EQ(At(one_->ready.head).attempts, 1u);
}

// A message whose wait was over is listed at its due time, and then the clock is set back.
TEST_F(BacklogReaderTest, ARetryThatIsDueLaterAgainWaits) {
  const storage::MessageRef message = Put();
  const EntryIndex index = Take(one_, message);
  At(index).attempts = 1;
  At(index).progress = true;
  core_.records.PutProgress(
      message.key, one_->state.id,
      {.state = storage::Progress::State::kFailed, .attempts = 1, .retry_ms = now_.wall_ms + 500});
  core_.backlog.MoveToDisk(index);
  Commit();
  Attach();
  ReadPage();
  Commit();
  EXPECT_EQ(core_.table.count(EntryState::kReady), 0u);
  EXPECT_EQ(core_.table.count(EntryState::kDelayed), 1u);
}

// The listing counts the failed attempts, and the entry was offered at the place before the last
// move.
TEST_F(BacklogReaderTest, AStaleEntryGivesWayToTheListing) {
  const storage::MessageRef message = Put();
  const EntryIndex failed = Take(one_, message);
  At(failed).attempts = 2;
  At(failed).progress = true;
  core_.records.PutProgress(message.key, one_->state.id,
                            {.state = storage::Progress::State::kFailed, .attempts = 2});
  core_.backlog.MoveToDisk(failed);
  Commit();
  storage::MessageKey stale = message.key;
  stale.due_ms -= 5;
  const EntryIndex index = core_.table.Insert(stale, one_);
  core_.states.Pin(index);
  core_.states.MakeReady(index);
  Attach();
  ReadPage();
  Commit();
  ASSERT_EQ(core_.table.size(), 1u);
  const PendingDelivery& entry = At(core_.table.Find(message.key.id, one_));
  EXPECT_EQ(entry.key(), message.key);
  EXPECT_EQ(entry.attempts, 2u);
  EXPECT_EQ(entry.half_failures, 4u);
  EXPECT_TRUE(entry.progress);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
}

TEST_F(BacklogReaderTest, AStaleListingIsRemoved) {
  const storage::MessageRef message = List();
  writer_.Erase(message.key, kTopic, message.bytes, storage::Durability::kBuffered);
  Commit();
  const storage::BacklogRef item{.key = message.key, .entry = {.bytes = message.bytes}};
  EXPECT_EQ(p_.backlog_reader->TakeListed(item, one_), kNoEntry);
  Commit();
  EXPECT_FALSE(Listed(message.key, *one_));
}

}  // namespace
}  // namespace duetime::delivery
