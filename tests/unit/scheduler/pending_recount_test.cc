// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/pending_recount.h"

#include <cstdint>
#include <deque>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "tests/support/test_store.h"

namespace duetime::scheduler {
namespace {

using storage::MessageId;
using storage::MessageKey;
using storage::TopicId;

constexpr TopicId kRecounted{1};
constexpr TopicId kRecountedLater{2};

class PendingRecountTest : public testing::Test {
 protected:
  // Decides to put or to erase a message.
  void Decide(TopicId topic, const MessageKey& key, bool put) {
    storage::Record record;
    record.type = put ? storage::RecordType::kAccept : storage::RecordType::kErase;
    record.topic = topic;
    record.key = key;
    record.value =
        put ? storage::EncodeMessageRecord({.header = {topic, key.due_ms, key.due_ms}}) : "";
    recount_.Note(topic, key, put);
    writes_.Add(std::move(record), storage::Durability::kBuffered);
  }
  MessageKey Put(TopicId topic, uint64_t due_ms) {
    const MessageKey key = {.due_ms = due_ms, .id = MessageId::Make(1, ++sequence_, 0, due_ms)};
    Decide(topic, key, /*put=*/true);
    return key;
  }
  void Take() {
    auto batch = writes_.Take();
    if (batch.has_value()) taken_.push_back(*std::move(batch));
  }
  // Writes the next batch. Its decisions are visible, and the engine does not know it yet.
  void Append() {
    if (appended_ == taken_.size()) return;
    const storage::RecordBatch& records = taken_[appended_++].records;
    ASSERT_EQ(store_.Append(std::span(&records, 1), storage::Durability::kBuffered),
              storage::AppendOutcome::kAccepted);
  }
  void Complete() {
    if (appended_ == 0) return;
    --appended_;
    writes_.Complete({}, taken_.front().sequence, /*accepted=*/true);
    taken_.pop_front();
  }
  void Commit() {
    Take();
    while (appended_ < taken_.size()) Append();
    while (appended_ > 0) Complete();
  }

  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  PendingWrites writes_;
  PendingRecount recount_{0, &store_, &writes_, {.entries = 3}};
  uint64_t sequence_ = 0;
  std::deque<PendingWrites::Batch> taken_;
  // The batches at the front of taken_ that the store has.
  size_t appended_ = 0;
};

// Decisions, appends and completions fall between the slices in any order.
TEST_F(PendingRecountTest, CountsEveryDecisionOnce) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 10; ++i) Put(kRecountedLater, 1 + random() % 1'000);
  for (int round = 0; round < 100; ++round) {
    std::set<MessageKey> pending;
    std::vector<PendingRecount::Counted> counted;
    for (int i = 0; i < 40; ++i) pending.insert(Put(kRecounted, 1 + random() % 1'000));
    Commit();
    recount_.Begin(kRecounted);
    while (recount_.Has(kRecounted)) {
      const uint64_t draw = random() % 10;
      if (draw < 3) {
        pending.insert(Put(kRecounted, 1 + random() % 1'000));
      } else if (draw < 6 && !pending.empty()) {
        const auto at = std::next(pending.begin(), static_cast<int64_t>(random() % pending.size()));
        Decide(kRecounted, *at, /*put=*/false);
        pending.erase(at);
      } else if (draw < 7) {
        Take();
      } else if (draw < 8) {
        Append();
      } else if (draw < 9) {
        Complete();
      } else {
        ASSERT_TRUE(recount_.Step(&counted).ok());
      }
    }
    ASSERT_EQ(
        counted,
        (std::vector<PendingRecount::Counted>{{kRecounted, static_cast<int64_t>(pending.size())}}));
    for (const MessageKey& key : pending) Decide(kRecounted, key, /*put=*/false);
    Commit();
  }
}

TEST_F(PendingRecountTest, AStepIsASliceAndALaterTopicWaitsForTheNextWalk) {
  for (uint64_t due_ms = 1; due_ms <= 5; ++due_ms) Put(kRecounted, due_ms);
  Put(kRecountedLater, 1);
  Commit();
  std::vector<PendingRecount::Counted> counted;
  recount_.Begin(kRecounted);
  ASSERT_TRUE(recount_.Step(&counted).ok());
  EXPECT_TRUE(counted.empty()) << "6 messages in slices of 3";
  recount_.Begin(kRecountedLater);
  while (!recount_.empty()) ASSERT_TRUE(recount_.Step(&counted).ok());
  EXPECT_EQ(counted, (std::vector<PendingRecount::Counted>{{kRecounted, 5}, {kRecountedLater, 1}}));
}

TEST_F(PendingRecountTest, AReadErrorIsReported) {
  recount_.Begin(kRecounted);
  store_.FailReads(absl::DataLossError("broken"));
  std::vector<PendingRecount::Counted> counted;
  EXPECT_FALSE(recount_.Step(&counted).ok());
}

}  // namespace
}  // namespace duetime::scheduler
