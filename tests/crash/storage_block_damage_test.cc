// SPDX-License-Identifier: Apache-2.0
//
// Damages a block of a table of each column family in turn. What lies in the block answers
// DATA_LOSS, and is listed. Everything else is served, and appends go on.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <rocksdb/db.h>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/repair/verify.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/crash/numbered_records.h"
#include "tests/crash/store_driver.h"
#include "tests/crash/table_damage.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using storage::AppendOutcome;
using storage::BacklogEntry;
using storage::Durability;
using storage::IndexKind;
using storage::MessageKey;
using storage::ObjectKind;
using storage::Progress;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::RocksDbStore;
using storage::SubscriptionId;
using storage::TopicId;

constexpr uint64_t kMessages = 3000;

storage::RocksDbStoreOptions Options(const std::string& dir) {
  storage::RocksDbStoreOptions options = SmallStoreOptions(dir);
  options.write_buffer_bytes = 16 << 20;
  options.wal_bytes_max = 64 << 20;
  return options;
}

// The answers of point reads: the numbers that were found, and those that are damaged.
struct Found {
  std::set<uint64_t> sound;
  std::set<uint64_t> damaged;

  // Adds an answer. An answer is never "absent".
  template <typename T>
  void Add(uint64_t number, const absl::StatusOr<T>& answer, bool present) {
    if (storage::IsDamage(answer.status())) {
      damaged.insert(number);
    } else {
      EXPECT_TRUE(answer.ok() && present) << number << " " << answer.status();
      sound.insert(number);
    }
  }
};

class StorageBlockDamageTest : public testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    original_ = new TempDirectory;
    {
      auto store = RocksDbStore::Open(Options(original_->path()));
      ASSERT_TRUE(store.ok()) << store.status();
      std::vector<RecordBatch> group;
      for (uint64_t number = 0; number < kMessages; ++number) group.push_back(BatchOf(number));
      ASSERT_EQ((*store)->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
      ASSERT_TRUE((*store)->Close().ok());
    }
    // The next start writes the log to tables: one for each family.
    auto store = RocksDbStore::Open(Options(original_->path()));
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Close().ok());
  }

  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  void SetUp() override {
    fs::remove_all(copy_.path());
    fs::copy(original_->path(), copy_.path(), fs::copy_options::recursive);
  }

  const std::string& dir() const { return copy_.path(); }
  bool Of(const std::string& family) const { return GetParam() == family; }

  // A byte of a block of records of the largest table of the family, a third into it, or a
  // `part`-th.
  struct Place {
    fs::path table;
    uint64_t offset = 0;
  };

  Place Damage(uint64_t part = 3) const {
    const auto [table, bytes] = LargestTable(dir(), GetParam());
    FlipBit(table, bytes / part);
    return {.table = table, .offset = bytes / part};
  }

  // Compacts the whole family into tables of about one block each, without the store's reads.
  // `tables` becomes what the family then has, in the order of the keys.
  rocksdb::Status Compact(std::vector<rocksdb::LiveFileMetaData>* tables) const {
    auto database = storage::RocksDbDatabase::Open(Options(dir()));
    EXPECT_TRUE(database.ok()) << database.status();
    if (!database.ok()) return rocksdb::Status::Aborted();
    rocksdb::DB* const db = (*database)->db();
    rocksdb::CompactRangeOptions whole;
    whole.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    rocksdb::Status status;
    for (rocksdb::ColumnFamilyHandle* handle : (*database)->handles()) {
      if (handle->GetName() != GetParam()) continue;
      EXPECT_TRUE(db->SetOptions(handle, {{"target_file_size_base", "1"},
                                          {"block_based_table_factory", "{block_size=2048;}"}})
                      .ok());
      status = db->CompactRange(whole, handle, nullptr, nullptr);
    }
    db->GetLiveFilesMetaData(tables);
    std::erase_if(*tables,
                  [](const auto& table) { return table.column_family_name != GetParam(); });
    std::sort(tables->begin(), tables->end(),
              [](const auto& a, const auto& b) { return a.smallestkey < b.smallestkey; });
    EXPECT_FALSE((*database)->fenced());
    EXPECT_TRUE((*database)->Close().ok());
    return status;
  }

  absl::Status Open(size_t write_buffer_bytes = 16 << 20, uint64_t now_ms = 0) {
    store_.reset();
    storage::RocksDbStoreOptions options = Options(dir());
    options.write_buffer_bytes = write_buffer_bytes;
    options.now_ms = now_ms;
    options.log = [this](storage::RocksDbStoreOptions::LogLevel, absl::string_view text) {
      const std::lock_guard<std::mutex> lock(log_mutex_);
      log_ += std::string(text) + "\n";
    };
    auto store = RocksDbStore::Open(options);
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

  Found Messages() {
    Found found;
    std::vector<MessageKey> keys;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->Get(0, KeyOf(number));
      const bool present = answer.ok() && answer->has_value();
      if (present) {
        EXPECT_EQ(**answer, RecordOf(number));
      }
      found.Add(number, answer, present);
      keys.push_back(KeyOf(number));
    }
    std::vector<std::optional<std::string>> values;
    EXPECT_TRUE(store_->MultiGet(0, keys, &values).ok());
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto wanted = found.sound.contains(number) ? RecordOf(number) : std::string();
      EXPECT_TRUE(values[number].has_value() && *values[number] == wanted) << number;
    }
    return found;
  }

  Found Index() {
    Found found;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->GetIndex(0, TopicId{1}, IndexKind::kUserKey, NameOf(number));
      found.Add(number, answer, answer.ok() && answer->has_value());
    }
    return found;
  }

  Found Locators() {
    Found found;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->GetLocator(0, KeyOf(number).id);
      found.Add(number, answer, answer.ok() && answer->has_value());
    }
    return found;
  }

  Found BacklogEntries() {
    Found found;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->GetBacklog(0, kReader, KeyOf(number));
      found.Add(number, answer, answer.ok() && answer->has_value());
    }
    return found;
  }

  Found ProgressRows() {
    Found found;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->GetProgress(0, KeyOf(number));
      found.Add(number, answer, answer.ok() && answer->size() == 1);
    }
    return found;
  }

  Found Objects() {
    Found found;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto answer = store_->GetObject(ObjectKind::kRecurrence, 0, NameOf(number));
      found.Add(number, answer, answer.ok() && answer->has_value());
    }
    return found;
  }

  // What scans see, in pages of a few entries.
  std::set<uint64_t> ScannedMessages() {
    std::set<uint64_t> numbers;
    bool damaged = false;
    storage::Page<storage::MessageRef> page;
    page.next = MessageKey{};
    while (page.next.has_value()) {
      const absl::Status status = store_->Scan(
          0, *page.next, MessageKey::FirstAt(uint64_t{1} << 43), {.entries = 77}, &page);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      damaged = damaged || page.damaged;
      for (const auto& item : page.items) {
        EXPECT_TRUE(numbers.insert(item.key.due_ms / kStep).second);
      }
    }
    EXPECT_EQ(damaged, Of("messages"));
    return numbers;
  }

  std::set<uint64_t> ScannedHeads() {
    std::set<uint64_t> numbers;
    bool damaged = false;
    for (const TopicId topic : {TopicId{1}, TopicId{2}}) {
      storage::Page<storage::MessageHeadRef> page;
      page.next = MessageKey{};
      while (page.next.has_value()) {
        const absl::Status status =
            store_->ScanHeads(0, topic, {*page.next, MessageKey::FirstAt(uint64_t{1} << 43)},
                              {.entries = 77}, 500, &page);
        EXPECT_TRUE(status.ok()) << status;
        if (!status.ok()) break;
        damaged = damaged || page.damaged;
        for (const auto& item : page.items) numbers.insert(item.key.due_ms / kStep);
      }
    }
    EXPECT_EQ(damaged, Of("messages"));
    return numbers;
  }

  std::set<uint64_t> ScannedBacklog() {
    std::set<uint64_t> numbers;
    bool damaged = false;
    storage::Page<storage::BacklogRef> page;
    page.next = MessageKey{};
    while (page.next.has_value()) {
      const absl::Status status =
          store_->ScanBacklog(0, kReader, *page.next, {.entries = 77}, &page);
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      damaged = damaged || page.damaged;
      for (const auto& item : page.items) numbers.insert(item.key.due_ms / kStep);
    }
    EXPECT_EQ(damaged, Of("backlog"));
    EXPECT_EQ(store_->BacklogDamage() > 0, Of("backlog"));
    return numbers;
  }

  std::set<uint64_t> ScannedIndex() {
    std::set<uint64_t> numbers;
    std::vector<storage::IndexRef> entries;
    std::string after;
    do {
      EXPECT_TRUE(
          store_->ScanIndex(0, TopicId{1}, IndexKind::kUserKey, {"key-", after}, 77, &entries)
              .ok());
      for (const auto& entry : entries) {
        numbers.insert(std::stoull(entry.name.substr(4)) - 100'000);
      }
      if (!entries.empty()) after = entries.back().name;
    } while (!entries.empty());
    return numbers;
  }

  // The counters of a topic and of each minute, as they must be.
  void ExpectCounts(uint64_t messages) {
    std::map<uint32_t, uint64_t> bytes;
    for (uint64_t number = 0; number < messages; ++number) {
      bytes[static_cast<uint32_t>(TopicOf(number))] += RecordOf(number).size();
    }
    for (const TopicId topic : {TopicId{1}, TopicId{2}}) {
      std::vector<storage::BucketCount> counts;
      ASSERT_TRUE(
          store_->ScanCounts(0, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts).ok());
      ASSERT_EQ(counts.size(), 1u);
      EXPECT_EQ(counts[0].messages, messages / 2);
      EXPECT_EQ(counts[0].bytes, bytes[static_cast<uint32_t>(topic)]);
      ASSERT_TRUE(store_
                      ->ScanCounts(0, topic, storage::CountLevel::kMinute,
                                   {10 * kStep, 100 * kStep}, 1000, &counts)
                      .ok());
      EXPECT_EQ(counts.size(), 45u);
      ASSERT_TRUE(store_
                      ->ScanCounts(0, topic, storage::CountLevel::kHour,
                                   {storage::kHourMs, 5 * storage::kHourMs}, 1000, &counts)
                      .ok());
      ASSERT_EQ(counts.size(), 4u);
      EXPECT_EQ(counts[3].messages, 30u);
    }
  }

  // The whole state, as reads show it. Holds at any time after the damage.
  void ExpectOnlyTheBlockIsLost() {
    const Found messages = Messages();
    const Found index = Index();
    const Found backlog = BacklogEntries();
    EXPECT_EQ(messages.damaged.empty(), !Of("messages"));
    EXPECT_EQ(index.damaged.empty(), !Of("index"));
    EXPECT_EQ(backlog.damaged.empty(), !Of("backlog"));
    EXPECT_EQ(Locators().damaged.empty(), !Of("traces"));
    EXPECT_EQ(ProgressRows().damaged.empty(), !Of("progress"));
    EXPECT_EQ(Objects().damaged.empty(), !Of("objects"));
    for (const Found* found : {&messages, &index, &backlog}) {
      EXPECT_LT(found->damaged.size(), kMessages / 3) << "more than a block is lost";
    }
    EXPECT_EQ(ScannedMessages(), messages.sound);
    EXPECT_EQ(ScannedHeads(), messages.sound);
    EXPECT_EQ(ScannedIndex(), index.sound);
    EXPECT_EQ(ScannedBacklog(), backlog.sound);
    EXPECT_EQ(store_->BacklogSubscriptions(0)->subscriptions, std::vector<SubscriptionId>{kReader});
    if (!Of("messages")) ExpectCounts(kMessages);
    if (!messages.damaged.empty()) {
      // A block is one run of keys.
      EXPECT_EQ(*messages.damaged.rbegin() - *messages.damaged.begin() + 1,
                messages.damaged.size());
    }
  }

  static TempDirectory* original_;
  const TempDirectory copy_;
  std::mutex log_mutex_;
  std::string log_;
  std::unique_ptr<RocksDbStore> store_;
};

TempDirectory* StorageBlockDamageTest::original_ = nullptr;

TEST_P(StorageBlockDamageTest, AnUndamagedStoreHasNoDamage) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Messages().damaged.empty());
  ExpectCounts(kMessages);
  EXPECT_TRUE(store_->Damage().blocks.empty());
}

TEST_P(StorageBlockDamageTest, OnlyTheBlockIsLost) {
  const Place place = Damage();
  ASSERT_TRUE(Open().ok());
  ExpectOnlyTheBlockIsLost();
  const storage::DamageReport report = store_->Damage();
  ASSERT_EQ(report.blocks.size(), 1u);
  EXPECT_EQ(report.blocks[0].file, place.table.filename());
  EXPECT_EQ(report.blocks[0].family, GetParam());
  EXPECT_LE(report.blocks[0].offset, place.offset);
  EXPECT_LE(report.blocks[0].first, report.blocks[0].last);
  // Once in the log, however many reads met it.
  EXPECT_NE(log_.find("is damaged"), std::string::npos);
  EXPECT_EQ(log_.find("is damaged"), log_.rfind("is damaged"));
  // The same after a restart.
  ASSERT_TRUE(store_->Close().ok());
  ASSERT_TRUE(Open().ok());
  ExpectOnlyTheBlockIsLost();
}

// A scan comes to the damaged block from the table before it, where RocksDB's iterators may drop
// the error.
TEST_P(StorageBlockDamageTest, TheFirstBlockOfALaterTableOfALevel) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  ASSERT_TRUE(Compact(&tables).ok());
  ASSERT_GT(tables.size(), 2u);
  const rocksdb::LiveFileMetaData table = tables[tables.size() / 2];
  ASSERT_GT(table.level, 0);
  ASSERT_EQ(table.level, tables.front().level);
  FlipBit(table.directory + table.name, 20);
  // Newer records of the first and the last key.
  std::vector<RecordBatch> newer;
  for (const uint64_t number : {uint64_t{0}, kMessages - 1}) {
    newer.push_back({Make(RecordType::kErase, number)});
    newer.back()[0].bytes = static_cast<uint32_t>(RecordOf(number).size());
    newer.push_back(BatchOf(number));
  }
  // A compaction fails and keeps the table: with the tables of its level, and with newer ones too.
  for (int compactions = 0; compactions <= 2; ++compactions) {
    if (compactions > 0) {
      EXPECT_TRUE(Compact(&tables).IsCorruption());
    }
    ASSERT_TRUE(Open().ok());
    ExpectOnlyTheBlockIsLost();
    ASSERT_EQ(store_->Damage().blocks.size(), 1u);
    EXPECT_EQ("/" + store_->Damage().blocks[0].file, table.name);
    if (compactions == 1) {
      ASSERT_EQ(store_->Append(newer, Durability::kSynced), AppendOutcome::kAccepted);
    }
    ASSERT_TRUE(store_->Close().ok());
    store_.reset();
  }
}

TEST_P(StorageBlockDamageTest, WhatIsWrittenLaterIsRead) {
  Damage();
  ASSERT_TRUE(Open().ok());
  const std::set<uint64_t> damaged = Messages().damaged;
  // Between two messages of the block, too: at half a minute past.
  std::vector<RecordBatch> group;
  for (uint64_t number = 0; number < kMessages; number += 50) {
    Record record = Accept(number);
    record.key.due_ms += kStep / 2;
    group.push_back({record});
  }
  ASSERT_EQ(store_->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
  storage::Page<storage::MessageRef> page;
  ASSERT_TRUE(store_
                  ->Scan(0, {}, MessageKey::FirstAt(uint64_t{1} << 43),
                         {.entries = 2 * kMessages, .bytes = 100 << 20}, &page)
                  .ok());
  EXPECT_EQ(page.items.size(), kMessages - damaged.size() + group.size());
  for (const RecordBatch& batch : group) {
    EXPECT_TRUE(store_->Get(0, batch[0].key)->has_value());
  }
  // An erased message is absent, because the tombstone is newer than the damage.
  for (const uint64_t number : damaged) {
    Record record = Make(RecordType::kErase, number);
    ASSERT_EQ(store_->Append({{{record}}}, Durability::kBuffered), AppendOutcome::kAccepted);
    EXPECT_FALSE(store_->Get(0, record.key).value().has_value());
  }
}

TEST_P(StorageBlockDamageTest, ACompactionThatMeetsItDoesNotFence) {
  Damage();
  ASSERT_TRUE(Open(/*write_buffer_bytes=*/256 << 10).ok());
  // Each round rewrites records in the whole range of keys, so that compactions read every table.
  uint64_t rounds = 0;
  for (; rounds < 400 && store_->Damage().stopped_families.empty(); ++rounds) {
    std::vector<RecordBatch> group;
    for (uint64_t number = kMessages; number < kMessages + 200; ++number) {
      RecordBatch batch = BatchOf(number);
      batch[0].key.due_ms = (number % 200 + 1) * kStep + rounds + 1;
      group.push_back(batch);
    }
    for (const uint64_t number : {uint64_t{0}, kMessages - 1}) group.push_back(BatchOf(number));
    // The message itself is already stored.
    group.back()[0] = group[group.size() - 2][0] = Make(RecordType::kClaim, 0);
    ASSERT_EQ(store_->Append(group, Durability::kSynced), AppendOutcome::kAccepted);
    ASSERT_TRUE(store_->WriteWitness().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(store_->Damage().stopped_families, std::vector<std::string>{GetParam()}) << log_;
  EXPECT_FALSE(store_->Stats().fenced);
  for (uint64_t number = kMessages + 1000; number < kMessages + 3000; ++number) {
    ASSERT_EQ(store_->Append({{{Accept(number)}}}, Durability::kSynced), AppendOutcome::kAccepted);
  }
  EXPECT_TRUE(store_->Close().ok());
  EXPECT_TRUE(Open().ok());
}

// The first start of a copy reads the backlogs, to claim what is due.
TEST_P(StorageBlockDamageTest, ACopyStartsAndClaims) {
  ASSERT_TRUE(Open(16 << 20, /*now_ms=*/1).ok());
  ASSERT_TRUE(store_->Close().ok());
  store_.reset();
  const std::string witness = dir() + "/witness";
  fs::copy(witness, witness + ".copy");
  fs::rename(witness + ".copy", witness);
  Damage(/*part=*/1000);  // the first block
  const absl::Status opened = Open(16 << 20, /*now_ms=*/kStep);
  ASSERT_TRUE(opened.ok()) << opened;
  EXPECT_THAT(log_, testing::HasSubstr("is a copy"));
  const auto claim = store_->BacklogClaim(0, kReader);
  ASSERT_TRUE(claim.ok() && claim->has_value());
  EXPECT_EQ((*claim)->due_ms, kStep);
}

// The names and the bytes of all files.
std::map<std::string, std::string> FilesOf(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().string()] = {std::istreambuf_iterator<char>(file),
                                    std::istreambuf_iterator<char>()};
  }
  return files;
}

TEST_P(StorageBlockDamageTest, TheVerifierNamesIt) {
  std::string printed;
  const auto print = [&printed](absl::string_view line) { absl::StrAppend(&printed, line, "\n"); };
  auto files = FilesOf(dir());
  EXPECT_TRUE(storage::VerifyDirectory(dir(), print).ok()) << printed;
  EXPECT_THAT(printed, testing::HasSubstr(absl::StrCat(kMessages, " messages, 0 faults")));
  EXPECT_TRUE(FilesOf(dir()) == files) << "the verifier wrote";

  const Place place = Damage();
  files = FilesOf(dir());
  printed.clear();
  EXPECT_TRUE(absl::IsDataLoss(storage::VerifyDirectory(dir(), print)));
  EXPECT_THAT(printed, testing::HasSubstr(place.table.filename().string()));
  EXPECT_THAT(printed, testing::HasSubstr(GetParam()));
  EXPECT_THAT(printed, testing::HasSubstr(" 1 faults"));
  EXPECT_TRUE(FilesOf(dir()) == files) << "the verifier wrote";

  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(absl::IsUnavailable(storage::VerifyDirectory(dir(), print)));
  EXPECT_TRUE(absl::IsNotFound(storage::VerifyDirectory(dir() + "/db", print)));
}

INSTANTIATE_TEST_SUITE_P(Families, StorageBlockDamageTest,
                         testing::Values("messages", "backlog", "index", "traces", "counts",
                                         "progress", "objects"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace duetime::test
