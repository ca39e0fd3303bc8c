// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/committer.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/scripted_journal.h"

namespace duetime::runtime {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using ::testing::ElementsAre;

class CommitterTest : public ::testing::Test {
 protected:
  // Makes a committer, which must end before the mailboxes and the journal that it uses.
  void Make(const GroupLimits& limits) {
    committer_ = std::make_unique<Committer>(limits, &journal_);
    committer_->Start();
  }

  void Submit(uint16_t shard, uint64_t sequence, const std::string& name, size_t records = 1,
              Durability durability = Durability::kBuffered) {
    Submission submission{.participant = shard,
                          .reply_to = &mailboxes_[shard],
                          .sequence = sequence,
                          .records = {},
                          .bytes = 100 * records,
                          .durability = durability};
    submission.records.resize(records);
    submission.records[0].value = name;
    committer_->Submit(std::move(submission));
  }

  // Waits for `count` completions of a shard.
  std::vector<Completion> Completions(uint16_t shard, size_t count) {
    std::vector<Completion> all;
    ShardMailbox::Taken taken;
    while (all.size() < count) {
      mailboxes_[shard].Wait(std::chrono::seconds(10), ShardMailbox::kNoCommands, {});
      mailboxes_[shard].Take(true, {}, &taken);
      all.insert(all.end(), taken.completions.begin(), taken.completions.end());
    }
    return all;
  }

  static std::vector<uint64_t> Sequences(const std::vector<Completion>& completions) {
    std::vector<uint64_t> sequences;
    for (const Completion& completion : completions) sequences.push_back(completion.sequence);
    return sequences;
  }

  static std::vector<AppendOutcome> Outcomes(const std::vector<Completion>& completions) {
    std::vector<AppendOutcome> outcomes;
    for (const Completion& completion : completions) outcomes.push_back(completion.outcome);
    return outcomes;
  }

  ScriptedJournal journal_;
  ShardMailbox mailboxes_[2] = {ShardMailbox({.commands_max = 1, .bytes_max = 1}),
                                ShardMailbox({.commands_max = 1, .bytes_max = 1})};
  std::unique_ptr<Committer> committer_;
};

TEST_F(CommitterTest, BatchesSubmittedDuringAnAppendShareTheNextOne) {
  Make({.records_max = 100, .bytes_max = 1 << 20});
  Submit(0, 1, "a");
  journal_.WaitForAppends(1);
  Submit(1, 1, "b");
  Submit(0, 2, "c");
  Submit(1, 2, "d");
  for (int i = 0; i < 2; ++i) journal_.Let(AppendOutcome::kAccepted);
  const auto appends = journal_.WaitForAppends(2);
  EXPECT_THAT(appends[0].batches, ElementsAre("a"));
  EXPECT_THAT(appends[1].batches, ElementsAre("b", "c", "d"));
  EXPECT_THAT(Sequences(Completions(0, 2)), ElementsAre(1, 2));
  EXPECT_THAT(Sequences(Completions(1, 2)), ElementsAre(1, 2));
  const CommitStats stats = committer_->stats();
  EXPECT_EQ(stats.groups, 2u);
  EXPECT_EQ(stats.batches, 4u);
  EXPECT_EQ(stats.records, 4u);
  EXPECT_EQ(stats.bytes, 400u);
  EXPECT_EQ(stats.syncs, 0u);
  EXPECT_FALSE(stats.failed);
}

TEST_F(CommitterTest, G1_OrderHoldsAcrossGroupsThatAreFull) {
  Make({.records_max = 4, .bytes_max = 1 << 20});
  Submit(0, 1, "a");
  journal_.WaitForAppends(1);
  Submit(0, 2, "b", 3);
  Submit(0, 3, "c", 3);
  Submit(0, 4, "d", 9);
  Submit(0, 5, "e", 1);
  for (int i = 0; i < 2; ++i) journal_.Let(AppendOutcome::kAccepted);
  // "f" arrives while the second group is being appended. It keeps its place in the order and
  // shares a group with "e".
  journal_.WaitForAppends(3);
  Submit(0, 6, "f", 1);
  for (int i = 0; i < 3; ++i) journal_.Let(AppendOutcome::kAccepted);
  EXPECT_THAT(Sequences(Completions(0, 6)), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto appends = journal_.WaitForAppends(5);
  ASSERT_EQ(appends.size(), 5u);
  EXPECT_THAT(appends[1].batches, ElementsAre("b"));
  EXPECT_THAT(appends[2].batches, ElementsAre("c"));
  // "d" is larger than the limit, so it has a group of its own.
  EXPECT_THAT(appends[3].batches, ElementsAre("d"));
  EXPECT_THAT(appends[4].batches, ElementsAre("e", "f"));
}

TEST_F(CommitterTest, BytesBoundAGroupToo) {
  Make({.records_max = 100, .bytes_max = 250});
  Submit(0, 1, "a");
  journal_.WaitForAppends(1);
  for (uint64_t i = 2; i <= 4; ++i) Submit(0, i, "b");
  for (int i = 0; i < 3; ++i) journal_.Let(AppendOutcome::kAccepted);
  Completions(0, 4);
  EXPECT_EQ(journal_.WaitForAppends(3)[1].records, 2u);
}

TEST_F(CommitterTest, G2_OneBatchThatAsksForASyncGetsItForItsGroupOnly) {
  Make({.records_max = 100, .bytes_max = 1 << 20});
  Submit(0, 1, "a");
  journal_.WaitForAppends(1);
  Submit(0, 2, "b");
  Submit(1, 1, "c", 1, Durability::kSynced);
  Submit(0, 3, "d");
  for (int i = 0; i < 2; ++i) journal_.Let(AppendOutcome::kAccepted);
  Completions(0, 3);
  const auto appends = journal_.WaitForAppends(2);
  EXPECT_FALSE(appends[0].synced);
  EXPECT_TRUE(appends[1].synced);
  EXPECT_EQ(committer_->stats().syncs, 1u);
}

TEST_F(CommitterTest, G3_AfterAnUnknownOutcomeEverythingElseIsFenced) {
  Make({.records_max = 100, .bytes_max = 1 << 20});
  Submit(0, 1, "a");
  journal_.WaitForAppends(1);
  Submit(0, 2, "b");
  Submit(1, 1, "c");
  EXPECT_FALSE(committer_->failed());
  journal_.Let(AppendOutcome::kUnknown);
  EXPECT_THAT(Outcomes(Completions(0, 2)),
              ElementsAre(AppendOutcome::kUnknown, AppendOutcome::kFenced));
  EXPECT_TRUE(committer_->failed());
  Submit(1, 2, "d");
  EXPECT_THAT(Outcomes(Completions(1, 2)),
              ElementsAre(AppendOutcome::kFenced, AppendOutcome::kFenced));
  // The committer appends nothing after the failure, and failed appends do not count.
  EXPECT_EQ(journal_.WaitForAppends(1).size(), 1u);
  EXPECT_TRUE(committer_->stats().failed);
}

TEST_F(CommitterTest, G3_AFencedJournalFencesEverything) {
  Make({.records_max = 100, .bytes_max = 1 << 20});
  journal_.Let(AppendOutcome::kFenced);
  Submit(0, 1, "a");
  EXPECT_THAT(Outcomes(Completions(0, 1)), ElementsAre(AppendOutcome::kFenced));
  EXPECT_TRUE(committer_->failed());
}

TEST_F(CommitterTest, AShardCanFenceTheRest) {
  Make({.records_max = 100, .bytes_max = 1 << 20});
  committer_->Fence();
  Submit(0, 1, "a");
  EXPECT_THAT(Outcomes(Completions(0, 1)), ElementsAre(AppendOutcome::kFenced));
  EXPECT_EQ(committer_->stats().groups, 0u);
}

TEST_F(CommitterTest, G4_StopCompletesSubmittedBatches) {
  Make({.records_max = 1, .bytes_max = 1 << 20});
  for (uint64_t i = 1; i <= 5; ++i) {
    Submit(0, i, "x");
    journal_.Let(AppendOutcome::kAccepted);
  }
  committer_->Stop();
  ShardMailbox::Taken taken;
  mailboxes_[0].Take(true, {}, &taken);
  EXPECT_THAT(Sequences(taken.completions), ElementsAre(1, 2, 3, 4, 5));
  committer_->Stop();
}

TEST_F(CommitterTest, AppendsAnEmptyGroupWhenIdleUntilAnOutcomeIsBad) {
  journal_.idle_ms = 1;
  Make({.records_max = 100, .bytes_max = 1 << 20});
  journal_.WaitForAppends(1);
  Submit(0, 1, "a");
  journal_.Let(AppendOutcome::kAccepted);
  journal_.Let(AppendOutcome::kAccepted);
  journal_.Let(AppendOutcome::kFenced);
  const auto appends = journal_.WaitForAppends(3);
  EXPECT_EQ(appends[0].records, 0u);
  EXPECT_THAT(appends[1].batches, ElementsAre("a"));
  EXPECT_EQ(appends[2].records, 0u);
  EXPECT_THAT(Outcomes(Completions(0, 1)), ElementsAre(AppendOutcome::kAccepted));
  committer_->Stop();
  EXPECT_TRUE(committer_->failed());
  EXPECT_EQ(journal_.WaitForAppends(3).size(), 3u);
}

}  // namespace
}  // namespace duetime::runtime
