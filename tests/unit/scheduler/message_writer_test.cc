// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/message_writer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/topic_use.h"
#include "storage/message_record.h"
#include "storage/time_units.h"
#include "tests/support/test_store.h"

namespace duetime::scheduler {
namespace {

using storage::CountLevel;
using storage::Durability;
using storage::kMinuteMs;
using storage::MessageId;
using storage::MessageKey;
using storage::RecordType;
using storage::TopicId;

constexpr TopicId kCountedTopic{1};
constexpr TopicId kOther{2};

class MessageWriterTest : public testing::Test {
 protected:
  MessageKey Put(TopicId topic, uint64_t due_ms, const std::string& record = "12345") {
    const MessageKey key = {.due_ms = due_ms, .id = MessageId::Make(1, ++sequence_, 0, due_ms)};
    writer_.Put(key, topic, record);
    return key;
  }
  PendingWrites::Batch Commit() {
    EXPECT_TRUE(writer_.BeginWaitingCounts().ok());
    auto batch = writes_.Take();
    if (!batch.has_value()) return {};
    EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
              storage::AppendOutcome::kAccepted);
    writes_.Complete({}, batch->sequence, true);
    return *std::move(batch);
  }
  static size_t Count(const PendingWrites::Batch& batch, RecordType type) {
    return static_cast<size_t>(
        std::count_if(batch.records.begin(), batch.records.end(),
                      [type](const storage::Record& record) { return record.type == type; }));
  }
  // Messages and bytes of the topic by the store's counters.
  std::pair<uint64_t, uint64_t> Stored(TopicId topic) {
    std::vector<storage::BucketCount> counts;
    EXPECT_TRUE(store_.ScanCounts(0, topic, CountLevel::kTopic, {0, 1}, 1, &counts).ok());
    if (counts.empty()) return {0, 0};
    return {counts[0].messages, counts[0].bytes};
  }

  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  PendingWrites writes_;
  MessageWriter writer_{0, &store_, &writes_};
  uint64_t sequence_ = 0;
};

TEST_F(MessageWriterTest, AMessageIsCountedWhenItComesAndWhenItGoes) {
  const MessageKey key = Put(kCountedTopic, 5);
  EXPECT_EQ(*writer_.Pending(kCountedTopic), 1);
  const auto batch = Commit();
  EXPECT_EQ(batch.durability, Durability::kSynced);
  EXPECT_EQ(Count(batch, RecordType::kAccept), 1u);
  EXPECT_EQ(Stored(kCountedTopic), (std::pair<uint64_t, uint64_t>{1, 5}));
  writer_.Erase(key, kCountedTopic, 5, Durability::kBuffered);
  EXPECT_EQ(*writer_.Pending(kCountedTopic), 0);
  EXPECT_EQ(Commit().durability, Durability::kBuffered);
  EXPECT_EQ(Stored(kCountedTopic), (std::pair<uint64_t, uint64_t>{0, 0}));
}

// The count is unknown until Recount has read the messages.
TEST_F(MessageWriterTest, DamagedCountersAreReplacedByACountOfTheMessages) {
  for (uint64_t due_ms = 1; due_ms <= 3; ++due_ms) {
    Put(kCountedTopic, due_ms,
        storage::EncodeMessageRecord({.header = {kCountedTopic, due_ms, due_ms}}));
  }
  Commit();
  disk_.DamageCounts(0, kCountedTopic);
  MessageWriter writer(0, &store_, &writes_);
  EXPECT_EQ(*writer.Pending(kCountedTopic), 1) << "it does not count as empty";
  const auto quota = std::make_shared<protocol::TopicQuota>();
  ASSERT_TRUE(writer.SetQuota(kCountedTopic, quota).ok());
  writer.Put({.due_ms = 9, .id = MessageId::Make(2, 1, 0, 9)}, kCountedTopic,
             storage::EncodeMessageRecord({.header = {kCountedTopic, 9, 9}}));
  EXPECT_EQ(quota->pending.load(), 1);
  EXPECT_FALSE(writer.Recount()) << "one slice is enough";
  EXPECT_EQ(*writer.Pending(kCountedTopic), 4);
  EXPECT_EQ(quota->pending.load(), 4);
  EXPECT_TRUE(writer.BeginWaitingCounts().ok());
}

TEST_F(MessageWriterTest, ARecordThatReplacesAnotherIsWrittenAndCountedAlone) {
  writer_.CountMinutes(kCountedTopic, true);
  Put(kCountedTopic, 7);
  const MessageKey first = Put(kCountedTopic, 5);
  const MessageKey second = {.due_ms = 2 * kMinuteMs, .id = first.id};
  writer_.Put(second, kCountedTopic, "1234567", /*replaces=*/1);
  EXPECT_EQ(*writer_.Pending(kCountedTopic), 2);
  EXPECT_EQ(*writer_.minutes().At(kCountedTopic, 0), 1);
  EXPECT_EQ(*writer_.minutes().At(kCountedTopic, 2 * kMinuteMs), 1);
  EXPECT_DEATH(writer_.Put(second, kCountedTopic, "1", /*replaces=*/0), "id");
  EXPECT_EQ(Count(Commit(), RecordType::kAccept), 2u);
  EXPECT_EQ(Stored(kCountedTopic), (std::pair<uint64_t, uint64_t>{2, 12}));
  EXPECT_FALSE(store_.Get(0, first)->has_value());
  EXPECT_TRUE(store_.Get(0, second)->has_value());
}

TEST_F(MessageWriterTest, TopicsAreCountedApart) {
  Put(kOther, 1);
  Commit();
  for (uint64_t i = 0; i < 100; ++i) {
    Put(kCountedTopic, i);
    Put(kOther, i);
    Put(kCountedTopic, kMinuteMs + i);
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*writer_.Pending(kCountedTopic), 200);
    EXPECT_EQ(*writer_.Pending(kOther), 101);
    Commit();
  }
  EXPECT_EQ(Stored(kCountedTopic).first, 200u);
  EXPECT_EQ(Stored(kOther).first, 101u);
}

TEST_F(MessageWriterTest, AQuotaCountsWhatWasThereAndWhatComes) {
  Put(kCountedTopic, 1);
  Commit();
  Put(kCountedTopic, 2);
  auto quota = std::make_shared<protocol::TopicQuota>();
  quota->max = 3;
  ASSERT_TRUE(writer_.SetQuota(kCountedTopic, quota).ok());
  EXPECT_EQ(quota->pending.load(), 2);
  // A second command does not count the messages again.
  ASSERT_TRUE(writer_.SetQuota(kCountedTopic, quota).ok());
  EXPECT_TRUE(writer_.QuotaOf(kCountedTopic)->HasRoom());
  const MessageKey key = Put(kCountedTopic, 3);
  EXPECT_FALSE(writer_.QuotaOf(kCountedTopic)->HasRoom());
  writer_.Erase(key, kCountedTopic, 5, Durability::kBuffered);
  EXPECT_TRUE(writer_.QuotaOf(kCountedTopic)->HasRoom());
  EXPECT_EQ(writer_.QuotaOf(kOther), nullptr);
}

TEST_F(MessageWriterTest, AWatchedTopicIsReportedOnce) {
  const auto use = std::make_shared<protocol::TopicUse>();
  writer_.Watch(kCountedTopic, use);
  writer_.Watch(kOther, std::make_shared<protocol::TopicUse>());
  writer_.Watch(kOther, nullptr);
  Put(kOther, 1);
  EXPECT_TRUE(writer_.TakeUsed().empty());
  EXPECT_FALSE(use->used());
  Put(kCountedTopic, 1);
  EXPECT_TRUE(use->used()) << "before the commit, and so before the answer";
  Put(kCountedTopic, 2);
  EXPECT_EQ(writer_.TakeUsed(), std::vector<TopicId>{kCountedTopic});
  EXPECT_TRUE(writer_.TakeUsed().empty());
}

TEST_F(MessageWriterTest, ExactMinutesBeginWhenNothingIsInFlight) {
  Put(kCountedTopic, 1);
  ASSERT_TRUE(writer_.BeginWaitingCounts().ok());
  auto batch = writes_.Take();
  writer_.CountMinutes(kCountedTopic, true);
  EXPECT_TRUE(writer_.waits_to_count());
  EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
            storage::AppendOutcome::kAccepted);
  writes_.Complete({}, batch->sequence, true);
  EXPECT_FALSE(writer_.waits_to_count());
  Put(kCountedTopic, 2);
  Commit();
  EXPECT_EQ(*writer_.minutes().At(kCountedTopic, 0), 2);
  writer_.CountMinutes(kCountedTopic, false);
  EXPECT_FALSE(writer_.minutes().Has(kCountedTopic));
}

TEST_F(MessageWriterTest, ExactMinutesIncludeTheOpenBatch) {
  const MessageKey key = Put(kCountedTopic, 1);
  Commit();
  writer_.Erase(key, kCountedTopic, 5, Durability::kBuffered);
  Put(kCountedTopic, kMinuteMs);
  Put(kCountedTopic, kMinuteMs + 1);
  Put(kOther, kMinuteMs);
  writer_.CountMinutes(kCountedTopic, true);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*writer_.minutes().At(kCountedTopic, 0), 0);
    EXPECT_EQ(*writer_.minutes().At(kCountedTopic, kMinuteMs), 2);
    Commit();
  }
}

TEST_F(MessageWriterTest, ObjectsAndLocatorsReachTheStore) {
  writer_.PutObject(storage::ObjectKind::kOperation, "op", "bytes", Durability::kSynced);
  const MessageId id = MessageId::Make(1, 1, 0, 5);
  writer_.PutLocator(id, {.due_ms = 9, .tombstone = std::nullopt}, Durability::kSynced);
  Commit();
  EXPECT_EQ(**store_.GetObject(storage::ObjectKind::kOperation, 0, "op"), "bytes");
  EXPECT_EQ((*store_.GetLocator(0, id))->due_ms, 9u);
  writer_.RemoveObject(storage::ObjectKind::kOperation, "op", Durability::kSynced);
  writer_.RemoveObject(storage::ObjectKind::kOperation, "absent", Durability::kSynced);
  Commit();
  EXPECT_FALSE(store_.GetObject(storage::ObjectKind::kOperation, 0, "op")->has_value());
}

// Each end erases its message first.
TEST_F(MessageWriterTest, TombstonesOfNeighboursAreOneRecord) {
  using storage::EndState;
  const auto id = [](uint64_t sequence) { return MessageId::Make(1, sequence, 0, 5); };
  std::map<uint64_t, storage::Tombstone> ended;
  const auto end = [&](uint64_t sequence, EndState how, Durability durability, size_t key_bytes) {
    storage::Tombstone& tombstone = ended[sequence];
    tombstone.state = how;
    tombstone.topic = kOther;
    tombstone.expire_ms = 9;
    tombstone.key = std::string(key_bytes, 'k');
    writer_.Erase({.due_ms = 5, .id = id(sequence)}, kOther, 1, durability);
    writer_.PutTombstone(id(sequence), tombstone, durability);
  };
  end(1, EndState::kAcked, Durability::kBuffered, 0);
  const size_t bytes = writes_.open_bytes();
  end(64, EndState::kAcked, Durability::kBuffered, 0);  // the next high half
  end(3, EndState::kCancelled, Durability::kBuffered, 0);
  end(2, EndState::kAcked, Durability::kSynced, 5000);  // in the row of 1, which is full now
  EXPECT_GT(writes_.open_bytes(), bytes + 5000);
  end(4, EndState::kAcked, Durability::kBuffered, 0);
  end(5, EndState::kAcked, Durability::kBuffered, 0);  // in the row of 4
  PendingWrites::Batch batch = Commit();
  EXPECT_EQ(batch.durability, Durability::kSynced);
  EXPECT_EQ(Count(batch, RecordType::kLocator), 4u);
  end(6, EndState::kAcked, Durability::kBuffered, 0);
  EXPECT_EQ(Count(Commit(), RecordType::kLocator), 1u);
  for (const auto& [sequence, tombstone] : ended) {
    const auto found = *store_.GetLocator(0, id(sequence));
    ASSERT_TRUE(found.has_value()) << sequence;
    EXPECT_EQ(found->tombstone, tombstone) << sequence;
  }
  end(7, EndState::kAcked, Durability::kBuffered, 0);
  writes_.Abandon({});
  end(8, EndState::kAcked, Durability::kBuffered, 0);
  EXPECT_EQ(Count(Commit(), RecordType::kLocator), 1u);
}

TEST_F(MessageWriterTest, AStoreThatCannotBeReadIsAnError) {
  store_.FailReads(absl::DataLossError("disk"));
  Put(kCountedTopic, 1);
  EXPECT_FALSE(writer_.BeginWaitingCounts().ok());
  EXPECT_FALSE(writer_.Pending(kCountedTopic).ok());
  EXPECT_FALSE(writer_.SetQuota(kCountedTopic, std::make_shared<protocol::TopicQuota>()).ok());
}

}  // namespace
}  // namespace duetime::scheduler
