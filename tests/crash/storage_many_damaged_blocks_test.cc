// SPDX-License-Identifier: Apache-2.0
//
// Damages many blocks of one table. No scan locates more than one block before it returns, and a
// full list of blocks stands for the rest of the table.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <rocksdb/db.h>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "storage/key_codec.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/crash/numbered_records.h"
#include "tests/crash/store_driver.h"
#include "tests/crash/table_damage.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

class ManyDamagedBlocksTest : public testing::Test {
 protected:
  static constexpr uint64_t kRecords = 3000;
  static constexpr storage::ScanLimit kAll = {.entries = 2 * kRecords, .bytes = 100 << 20};
  static constexpr storage::MessageKey kEnd = storage::MessageKey::FirstAt(uint64_t{1} << 43);

  void Open(size_t blocks_max = storage::DamageList::kBlocksMax) {
    store_.reset();
    storage::RocksDbStoreOptions options = SmallStoreOptions(directory_.path());
    options.write_buffer_bytes = 16 << 20;
    options.wal_bytes_max = 64 << 20;
    options.damaged_blocks_max = blocks_max;
    auto store = storage::RocksDbStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  // Makes a store with one record of each number.
  void Create(storage::RecordType type) {
    std::vector<storage::RecordBatch> group;
    for (uint64_t number = 0; number < kRecords; ++number) {
      group.push_back({type == storage::RecordType::kAccept ? Accept(number) : Make(type, number)});
    }
    Open();
    ASSERT_EQ(store_->Append(group, storage::Durability::kSynced),
              storage::AppendOutcome::kAccepted);
    ASSERT_TRUE(store_->Close().ok());
    // The next start writes the log to tables.
    Open();
    ASSERT_TRUE(store_->Close().ok());
    store_.reset();
  }

  // Damages the first half of the largest table.
  void DamageHalf() {
    std::filesystem::path largest;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path() + "/db")) {
      if (entry.path().extension() != ".sst") continue;
      if (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)) {
        largest = entry.path();
      }
    }
    const uint64_t part = std::filesystem::file_size(largest) / 16;
    for (uint64_t at = part; at < 8 * part; at += part) FlipBit(largest, at);
  }

  // Gives each counter a block of its own, and damages the first one: that of the first topic.
  void DamageTheFirstCounter() {
    auto database = storage::RocksDbDatabase::Open(SmallStoreOptions(directory_.path()));
    ASSERT_TRUE(database.ok()) << database.status();
    rocksdb::DB* const db = (*database)->db();
    rocksdb::ColumnFamilyHandle* const counts = (*database)->handle(storage::ColumnFamily::kCounts);
    ASSERT_TRUE(db->SetOptions(counts, {{"block_based_table_factory", "{block_size=1;}"}}).ok());
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db->CompactRange(whole, counts, nullptr, nullptr).ok());
    std::vector<rocksdb::LiveFileMetaData> tables;
    db->GetLiveFilesMetaData(&tables);
    ASSERT_TRUE((*database)->Close().ok());
    database->reset();
    size_t damaged = 0;
    for (const rocksdb::LiveFileMetaData& table : tables) {
      if (table.column_family_name != "counts") continue;
      FlipBit(table.directory + table.name, 5);
      ++damaged;
    }
    ASSERT_EQ(damaged, 1u);
  }

  // The numbers that read(from, page) shows, page by page.
  template <typename Ref, typename Read>
  std::set<uint64_t> NumbersOf(Read read) {
    std::set<uint64_t> numbers;
    storage::Page<Ref> page;
    page.next = storage::MessageKey{};
    while (page.next.has_value()) {
      const storage::MessageKey from = *page.next;
      const size_t known = store_->Damage().blocks.size();
      const absl::Status status = read(from, &page);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      EXPECT_LE(store_->Damage().blocks.size(), known + 1) << "a page located two blocks";
      EXPECT_TRUE(!page.next.has_value() || from < *page.next);
      for (const Ref& item : page.items) {
        EXPECT_TRUE(numbers.insert(item.key.due_ms / kStep).second) << "shown twice";
      }
    }
    return numbers;
  }
  std::set<uint64_t> Scanned() {
    return NumbersOf<storage::MessageRef>([this](const storage::MessageKey& from, auto* page) {
      return store_->Scan(0, from, kEnd, kAll, page);
    });
  }
  std::set<uint64_t> ScannedHeads() {
    std::set<uint64_t> numbers;
    for (const storage::TopicId topic : {storage::TopicId{1}, storage::TopicId{2}}) {
      numbers.merge(
          NumbersOf<storage::MessageHeadRef>([&](const storage::MessageKey& from, auto* page) {
            return store_->ScanHeads(0, topic, {from, kEnd}, kAll, kRecords, page);
          }));
    }
    return numbers;
  }
  std::set<uint64_t> ScannedBacklog() {
    return NumbersOf<storage::BacklogRef>([this](const storage::MessageKey& from, auto* page) {
      return store_->ScanBacklog(0, kReader, from, kAll, page);
    });
  }
  // The numbers for which read(key) finds a record.
  template <typename Read>
  std::set<uint64_t> Sound(Read read) {
    std::set<uint64_t> numbers;
    for (uint64_t number = 0; number < kRecords; ++number) {
      const auto record = read(KeyOf(number));
      EXPECT_TRUE(storage::IsDamage(record.status()) || (record.ok() && record->has_value()));
      if (record.ok()) numbers.insert(number);
    }
    return numbers;
  }
  std::set<uint64_t> SoundMessages() {
    return Sound([this](const storage::MessageKey& key) { return store_->Get(0, key); });
  }

  const TempDirectory directory_;
  std::unique_ptr<storage::RocksDbStore> store_;
};

TEST_F(ManyDamagedBlocksTest, APageOfMessagesLocatesOneBlock) {
  Create(storage::RecordType::kAccept);
  DamageHalf();
  for (const bool heads : {false, true}) {
    Open();
    const std::set<uint64_t> scanned = heads ? ScannedHeads() : Scanned();
    const size_t blocks = store_->Damage().blocks.size();
    EXPECT_GE(blocks, 3u);
    EXPECT_TRUE(scanned == SoundMessages()) << heads;
    EXPECT_EQ(store_->Damage().blocks.size(), blocks) << "the scan met every block";
  }
}

TEST_F(ManyDamagedBlocksTest, APageOfABacklogLocatesOneBlock) {
  Create(storage::RecordType::kSpill);
  DamageHalf();
  Open();
  const std::set<uint64_t> scanned = ScannedBacklog();
  EXPECT_GE(store_->Damage().blocks.size(), 2u);
  EXPECT_EQ(store_->BacklogDamage(), store_->Damage().blocks.size());
  EXPECT_TRUE(scanned == Sound([this](const storage::MessageKey& key) {
                return store_->GetBacklog(0, kReader, key);
              }));
}

TEST_F(ManyDamagedBlocksTest, AFullListHidesABacklogFromScans) {
  Create(storage::RecordType::kSpill);
  DamageHalf();
  Open();
  ScannedBacklog();
  EXPECT_FALSE(store_->BacklogHidden());
  Open(/*blocks_max=*/1);
  ScannedBacklog();
  EXPECT_TRUE(store_->BacklogHidden());
}

TEST_F(ManyDamagedBlocksTest, AFullListLeavesTheTableOutAndSaysSo) {
  Create(storage::RecordType::kAccept);
  DamageHalf();
  Open(/*blocks_max=*/1);
  const std::set<uint64_t> scanned = Scanned();
  EXPECT_FALSE(scanned.empty());
  const storage::DamageReport report = store_->Damage();
  ASSERT_EQ(report.blocks.size(), 2u);
  EXPECT_FALSE(report.blocks[0].whole_table);
  EXPECT_TRUE(report.blocks[1].whole_table);
  EXPECT_EQ(report.blocks[1].file, report.blocks[0].file);
  // The list covers all that the scan left out.
  for (uint64_t number = 0; number < kRecords; ++number) {
    if (scanned.contains(number)) continue;
    const storage::StoreKey key = storage::EncodeMessageKey(0, KeyOf(number));
    EXPECT_TRUE(std::any_of(report.blocks.begin(), report.blocks.end(), [&key](const auto& block) {
      return block.first <= key.bytes() && key.bytes() <= block.last;
    })) << number;
  }
  // Point reads still see the sound blocks, and nothing is counted again.
  EXPECT_GT(SoundMessages().size(), kRecords / 2);
  EXPECT_TRUE(Scanned() == scanned);
  EXPECT_EQ(store_->Damage().blocks.size(), 2u);
  EXPECT_EQ(store_->Damage().unlisted, 0u);
}

TEST_F(ManyDamagedBlocksTest, ADamagedCounterOfATopicIsTheSumOfItsDays) {
  Create(storage::RecordType::kAccept);
  DamageTheFirstCounter();
  Open();
  for (const storage::TopicId topic : {storage::TopicId{1}, storage::TopicId{2}}) {
    std::vector<storage::BucketCount> counts;
    const absl::Status status =
        store_->ReadCounts(0, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(counts.size(), 1u);
    EXPECT_EQ(counts[0].messages, kRecords / 2);
  }
  ASSERT_EQ(store_->Damage().blocks.size(), 1u);
  EXPECT_EQ(store_->Damage().blocks[0].family, "counts");
}

}  // namespace
}  // namespace duetime::test
