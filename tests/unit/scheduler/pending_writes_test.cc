// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/pending_writes.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace duetime::scheduler {
namespace {

using storage::Durability;

class PendingWritesTest : public testing::Test {
 protected:
  void Add(uint64_t mark_ms, Durability durability = Durability::kBuffered) {
    storage::Record record;
    record.type = storage::RecordType::kLowWatermark;
    record.mark_ms = mark_ms;
    writes_.Add(std::move(record), durability);
  }
  void Note(int number) {
    writes_.Then([this, number](base::Now, bool ok) { ran_.push_back(ok ? number : -number); });
  }

  PendingWrites writes_;
  std::vector<int> ran_;
};

TEST_F(PendingWritesTest, AnIdleOneGivesNoBatch) {
  EXPECT_TRUE(writes_.idle());
  EXPECT_FALSE(writes_.Take().has_value());
  EXPECT_EQ(writes_.open_sequence(), 1u);
}

TEST_F(PendingWritesTest, G1_KeepsTheOrderOfRecordsAndContinuations) {
  Add(1);
  Note(1);
  Add(2);
  Note(2);
  const auto first = writes_.Take();
  Add(3);
  Note(3);
  const auto second = writes_.Take();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->sequence, 1u);
  EXPECT_EQ(second->sequence, 2u);
  ASSERT_EQ(first->records.size(), 2u);
  EXPECT_EQ(first->records[0].mark_ms, 1u);
  EXPECT_EQ(first->records[1].mark_ms, 2u);
  EXPECT_EQ(second->records.at(0).mark_ms, 3u);
  EXPECT_EQ(writes_.batches_in_flight(), 2u);
  writes_.Complete({}, 1, true);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2}));
  writes_.Complete({}, 2, false);
  EXPECT_EQ(ran_, (std::vector<int>{1, 2, -3}));
  EXPECT_TRUE(writes_.idle());
}

TEST_F(PendingWritesTest, CountsTheBytesOfTheOpenBatch) {
  const auto record = [](size_t bytes) {
    return storage::Record{.type = storage::RecordType::kAccept, .value = std::string(bytes, 'v')};
  };
  writes_.Add(record(100), Durability::kBuffered);
  writes_.Add(record(20), Durability::kBuffered);
  writes_.Replace(0, record(3));
  EXPECT_EQ(writes_.open_bytes(), 23u);
  writes_.Take();
  EXPECT_EQ(writes_.open_bytes(), 0u);
  writes_.Add(record(5), Durability::kBuffered);
  writes_.Abandon({});
  EXPECT_EQ(writes_.open_bytes(), 0u);
}

TEST_F(PendingWritesTest, OneSyncedRecordMakesTheBatchSynced) {
  Add(1);
  EXPECT_EQ(writes_.Take()->durability, Durability::kBuffered);
  Add(1);
  Add(2, Durability::kSynced);
  Add(3);
  EXPECT_EQ(writes_.Take()->durability, Durability::kSynced);
  Add(1);
  EXPECT_EQ(writes_.Take()->durability, Durability::kBuffered);
}

TEST_F(PendingWritesTest, AContinuationAloneIsABatch) {
  Note(1);
  const auto batch = writes_.Take();
  ASSERT_TRUE(batch.has_value());
  EXPECT_TRUE(batch->records.empty());
}

TEST_F(PendingWritesTest, WhatAContinuationAddsGoesToTheOpenBatch) {
  writes_.Then([this](base::Now, bool) { Note(7); });
  writes_.Complete({}, writes_.Take()->sequence, true);
  EXPECT_TRUE(ran_.empty());
  writes_.Complete({}, writes_.Take()->sequence, true);
  EXPECT_EQ(ran_, std::vector<int>{7});
}

TEST_F(PendingWritesTest, G2_AbandonRunsEachContinuationOnce) {
  Add(1);
  Note(1);
  const uint64_t taken = writes_.Take()->sequence;
  Add(2);
  Note(2);
  writes_.Abandon({});
  EXPECT_EQ(ran_, std::vector<int>{-2});
  EXPECT_FALSE(writes_.Take().has_value());
  writes_.Complete({}, taken, false);
  EXPECT_EQ(ran_, (std::vector<int>{-2, -1}));
}

TEST_F(PendingWritesTest, CompletesOnlyWhatWasTaken) {
  EXPECT_DEATH(writes_.Complete({}, 1, true), "taken_");
}

}  // namespace
}  // namespace duetime::scheduler
