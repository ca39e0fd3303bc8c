// SPDX-License-Identifier: Apache-2.0
#include "storage/damage.h"

#include <string>

#include "gtest/gtest.h"

#include "server/base/error.h"
#include "storage/memory_store.h"
#include "storage/message_record.h"

namespace duetime::storage {
namespace {

DamagedBlock Block(uint64_t offset) {
  return {.file = "000012.sst",
          .offset = offset,
          .family = "messages",
          .first = "a",
          .last = "b",
          .first_text = "shard 0 due 2026",
          .last_text = "shard 0 due 2027"};
}

TEST(DamageTest, TheErrorNamesTheBlock) {
  const absl::Status status = DamageError(Block(77));
  EXPECT_TRUE(IsDamage(status));
  const auto detail = base::GetErrorDetail(status);
  EXPECT_EQ(detail->reason, "CHECKSUM_MISMATCH");
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"file", "000012.sst"},
      {"offset", "77"},
      {"family", "messages"},
      {"first_key", "shard 0 due 2026"},
      {"last_key", "shard 0 due 2027"}};
  EXPECT_EQ(detail->metadata, wanted);
}

TEST(DamageTest, OtherErrorsAreNoDamage) {
  EXPECT_FALSE(IsDamage(absl::OkStatus()));
  EXPECT_FALSE(IsDamage(absl::DataLossError("the whole store")));
  EXPECT_FALSE(IsDamage(base::StorageFailedError()));
}

TEST(DamageTest, TheListHoldsEachBlockOnceAndIsBounded) {
  DamageList list;
  EXPECT_FALSE(list.Find("000012.sst", 0).has_value());
  for (uint64_t offset = 0; offset < DamageList::kBlocksMax; ++offset) {
    EXPECT_TRUE(list.Add(Block(offset)));
    EXPECT_FALSE(list.Add(Block(offset)));
  }
  EXPECT_FALSE(list.Add(Block(DamageList::kBlocksMax)));
  EXPECT_TRUE(list.full());
  EXPECT_EQ(list.Find("000012.sst", 7)->offset, 7u);
  EXPECT_TRUE(list.Stop("messages"));
  EXPECT_FALSE(list.Stop("messages"));
  const DamageReport report = list.report();
  EXPECT_EQ(report.blocks.size(), DamageList::kBlocksMax);
  EXPECT_EQ(report.unlisted, 1u);
  EXPECT_EQ(report.stopped_families.size(), 1u);
}

TEST(DamageTest, AFullListTakesWholeTables) {
  DamageList list(1);
  EXPECT_FALSE(list.full());
  EXPECT_TRUE(list.Add(Block(0)));
  DamagedBlock table = Block(0);
  table.whole_table = true;
  EXPECT_TRUE(list.Add(table));
  EXPECT_FALSE(list.Add(table));
  EXPECT_FALSE(list.Find("000012.sst", 0)->whole_table);
  EXPECT_TRUE(list.Find("000012.sst", 7)->whole_table);
  EXPECT_FALSE(list.Find("000013.sst", 7).has_value());
  EXPECT_EQ(list.CountOf("messages"), 2u);
  EXPECT_EQ(list.CountOf("backlog"), 0u);
  EXPECT_EQ(list.report().unlisted, 0u);
  EXPECT_EQ(PlaceText(table), "a block of 000012.sst");
  EXPECT_EQ(PlaceText(Block(5)), "the block at byte 5 of 000012.sst");
}

// The model store shows damage as MessageStore says.
TEST(DamageTest, ADamagedMessageIsNeitherReadNorAbsent) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  RecordBatch batch;
  for (uint64_t due_ms = 1; due_ms <= 3; ++due_ms) {
    Record record;
    record.type = RecordType::kAccept;
    record.topic = TopicId{1};
    record.key = MessageKey::FirstAt(due_ms);
    record.value =
        EncodeMessageRecord({.header = {TopicId{1}, due_ms, due_ms}, .payload = "payload"});
    batch.push_back(record);
  }
  ASSERT_EQ(store.Append({{batch}}, Durability::kSynced), AppendOutcome::kAccepted);
  disk.Damage(0, MessageKey::FirstAt(2));
  EXPECT_TRUE(IsDamage(store.Get(0, MessageKey::FirstAt(2)).status()));
  EXPECT_TRUE(store.Get(0, MessageKey::FirstAt(3))->has_value());
  EXPECT_FALSE(store.Get(0, MessageKey::FirstAt(4))->has_value());
  Page<MessageRef> page;
  ASSERT_TRUE(store.Scan(0, {}, MessageKey::FirstAt(9), {}, &page).ok());
  EXPECT_EQ(page.items.size(), 2u);
  Page<MessageHeadRef> heads;
  ASSERT_TRUE(store.ScanHeads(0, TopicId{1}, {{}, MessageKey::FirstAt(9)}, {}, 100, &heads).ok());
  EXPECT_EQ(heads.items.size(), 2u);
  EXPECT_TRUE(page.damaged && heads.damaged);
  ASSERT_TRUE(store.Scan(0, {}, MessageKey::FirstAt(2), {}, &page).ok());
  EXPECT_FALSE(page.damaged);
}

TEST(DamageTest, ADamagedPlaceOfABacklogIsUnknownUntilItIsWrittenAnew) {
  constexpr SubscriptionId kReader{3};
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  Record record;
  record.type = RecordType::kSpill;
  record.subscription = kReader;
  record.key = MessageKey::FirstAt(2);
  for (const bool written_before : {false, true}) {
    if (written_before) {
      ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
    }
    const uint64_t damage = store.BacklogDamage();
    disk.DamageBacklog(0, kReader, record.key);
    EXPECT_EQ(store.BacklogDamage(), damage + 1);
    EXPECT_TRUE(IsDamage(store.GetBacklog(0, kReader, record.key).status()));
    EXPECT_FALSE(store.GetBacklog(0, kReader, MessageKey::FirstAt(1))->has_value());
    Page<BacklogRef> page;
    for (const uint64_t from_ms : {1u, 2u, 3u}) {
      ASSERT_TRUE(store.ScanBacklog(0, kReader, MessageKey::FirstAt(from_ms), {}, &page).ok());
      EXPECT_TRUE(page.items.empty());
      EXPECT_EQ(page.damaged, from_ms <= 2) << from_ms;
    }
    EXPECT_TRUE(store.BacklogSubscriptions(0)->damaged);
  }
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_TRUE(store.GetBacklog(0, kReader, record.key)->has_value());
  EXPECT_FALSE(store.BacklogSubscriptions(0)->damaged);
}

TEST(DamageTest, DamagedProgressIsUnknownUntilItIsWrittenAnew) {
  MemoryDisk disk(1);
  MemoryStore store(&disk);
  Record record;
  record.type = RecordType::kProgress;
  record.subscription = SubscriptionId{3};
  record.key = MessageKey::FirstAt(2);
  disk.DamageProgress(0, record.key, record.subscription);
  EXPECT_TRUE(IsDamage(store.GetProgress(0, record.key).status()));
  EXPECT_TRUE(store.GetProgress(0, MessageKey::FirstAt(1))->empty());
  ASSERT_EQ(store.Append({{{record}}}, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(store.GetProgress(0, record.key)->size(), 1u);
}

}  // namespace
}  // namespace duetime::storage
