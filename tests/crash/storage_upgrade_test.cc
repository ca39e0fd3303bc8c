// SPDX-License-Identifier: Apache-2.0
//
// Opens data directories of older format versions, made from the bytes that those versions wrote,
// and cuts the power at every stage of their upgrades.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <rocksdb/db.h>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "server/catalog/catalog.h"
#include "server/protocol/subscription_state.h"
#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/message_record.h"
#include "storage/rocksdb_compaction.h"
#include "storage/rocksdb_database.h"
#include "storage/rocksdb_store.h"
#include "storage/time_units.h"
#include "storage/value_codec.h"
#include "storage/witness.h"
#include "tests/crash/unsynced_fs.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_seed.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using storage::BucketCount;
using storage::CountLevel;
using storage::MessageId;
using storage::MessageKey;
using storage::RocksDbStore;
using storage::StoreKey;
using storage::SubscriptionId;
using storage::TopicId;
using storage::WitnessRecord;

constexpr uint16_t kShards = 3;
// More than two writes of the upgrade, each of which counts 10,000 messages.
constexpr uint64_t kMessages = 21'000;
constexpr storage::StoreId kStoreId{17, 18};

rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

uint16_t ShardOf(uint64_t number) { return static_cast<uint16_t>(number % kShards); }
TopicId TopicOf(uint64_t number) { return TopicId{static_cast<uint32_t>(1 + number % 5)}; }

MessageKey KeyOf(uint64_t number) {
  const uint64_t due_ms = 7000 * number;
  return {due_ms, MessageId::Make(1, number, 0, due_ms)};
}

// A value as version 1 encoded it: with attributes, and with version number 1.
std::string ValueOf(uint64_t number) {
  const std::string payload(number % 50, 'p');
  std::string value = storage::EncodeMessageRecord(
      {.header = {TopicOf(number), KeyOf(number).due_ms, 1}, .payload = payload});
  value[0] = '\1';
  return value;
}

// The contents of an older version's database, by column family.
struct OldDatabase {
  uint32_t version = 1;
  std::vector<std::string> families;
  std::vector<std::tuple<size_t, StoreKey, std::string>> entries;
};

// Version 1 had three column families.
OldDatabase Version1() {
  OldDatabase old = {.version = 1, .families = {"default", "messages", "backlog"}, .entries = {}};
  for (uint64_t number = 0; number < kMessages; ++number) {
    old.entries.emplace_back(1, storage::EncodeMessageKey(ShardOf(number), KeyOf(number)),
                             ValueOf(number));
  }
  return old;
}

constexpr SubscriptionId kSubscription{4};  // the first subscription of topic 4
const MessageKey kListed = KeyOf(8);

// Version 2 had seven column families, and a topic number where a subscription number is now.
OldDatabase Version2() {
  OldDatabase old = {
      .version = 2,
      .families = {"default", "messages", "backlog", "index", "traces", "counts", "objects"},
      .entries = {}};
  const auto sum = storage::EncodeCountDelta({.messages = 1, .bytes = 40});
  const StoreKey object = storage::NameKey::OfObject('t', 0, "orders").ToStoreKey();
  old.entries = {
      {0, storage::BacklogClaimKey(2, kSubscription), storage::EncodePlace(kListed)},
      {1, storage::EncodeMessageKey(2, kListed), ValueOf(8)},
      {2, storage::EncodeBacklogKey(2, kSubscription, kListed),
       std::string("\1\1\2\0\0\0\3\0\0\0", 10)},
      {5, storage::CountKey(2, TopicOf(8)), std::string(sum.data(), sum.size())},
      {6, object, "settings"},
  };
  return old;
}

// Version 3 had eight column families. Shard 0 kept the settings of topics, and every shard its
// subscriptions.
OldDatabase Version3() {
  OldDatabase old = Version2();
  old.version = 3;
  old.families.emplace_back("progress");
  const auto object = [&](char kind, uint16_t shard, const std::string& name,
                          const std::string& value) {
    old.entries.emplace_back(
        6, storage::NameKey::OfObject(static_cast<uint8_t>(kind), shard, name).ToStoreKey(), value);
  };
  old.entries.pop_back();  // the topic settings of version 2, replaced below
  old.entries.emplace_back(0, storage::TopicKey(TopicOf(8)), "orders");
  std::string settings("\1\0", 2);
  for (const uint64_t number : {5u, 0u, 0u, 0u}) settings += storage::EncodeNumber(number);
  object('t', 0, "orders", settings);
  protocol::SubscriptionState state;
  state.id = kSubscription;
  state.topic = TopicOf(8);
  state.topic_name = "orders";
  state.name = "billing";
  state.settings.retry.max_attempts = 3;
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    object('s', shard, protocol::SubscriptionObjectName(state.id),
           protocol::EncodeSubscription(state));
  }
  return old;
}

using Counters = std::map<std::tuple<uint16_t, TopicId, CountLevel, uint64_t>, BucketCount>;

// The counters of the messages of version 1.
Counters Expected() {
  Counters counters;
  for (uint64_t number = 0; number < kMessages; ++number) {
    for (const CountLevel level : storage::kCountLevels) {
      const uint64_t start_ms = storage::BucketStart(level, KeyOf(number).due_ms);
      BucketCount& count = counters[{ShardOf(number), TopicOf(number), level, start_ms}];
      count.start_ms = start_ms;
      count.messages += 1;
      count.bytes += ValueOf(number).size();
    }
  }
  return counters;
}

// Version 4 had a counter for each topic, hour and minute. There are more of them than one write of
// the upgrade replaces.
OldDatabase Version4() {
  OldDatabase old = Version3();
  old.version = 4;
  old.entries.clear();
  for (const auto& [place, count] : Expected()) {
    const auto& [shard, topic, level, start_ms] = place;
    const auto sum = storage::EncodeCountDelta({.messages = static_cast<int64_t>(count.messages),
                                                .bytes = static_cast<int64_t>(count.bytes)});
    const auto row = static_cast<storage::CountRow>(level);
    old.entries.emplace_back(5, storage::EncodeCountKey(shard, topic, row, start_ms),
                             std::string(sum.data(), sum.size()));
  }
  return old;
}

// Version 5 had the counters of days, and the same families.
OldDatabase Version5() {
  OldDatabase old = Version3();
  old.version = 5;
  storage::DayEncoder day;
  day.Add(3, {.messages = 1, .bytes = 40});
  old.entries.emplace_back(5, storage::DayKey(2, TopicOf(8), 0), day.bytes());
  return old;
}

void MakeDatabase(const std::string& path, const OldDatabase& old) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : old.families) families.emplace_back(name, options);
  ASSERT_TRUE(rocksdb::DB::Open(options, path, families, &handles, &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteBatch batch;
  const auto put = [&](size_t family, const StoreKey& key, const std::string& value) {
    batch.Put(handles[family], ToSlice(key.bytes()), value).PermitUncheckedError();
  };
  put(0, storage::FormatVersionKey(), storage::EncodeNumber(old.version));
  put(0, storage::StoreIdKey(),
      storage::EncodeNumber(kStoreId.high) + storage::EncodeNumber(kStoreId.low));
  put(0, storage::ShardCountKey(), storage::EncodeNumber(kShards));
  put(0, storage::EpochKey(), storage::EncodeNumber(4));
  put(0, storage::ClaimKey(1), storage::EncodeNumber(99));
  for (const auto& [family, key, value] : old.entries) put(family, key, value);
  rocksdb::WriteOptions write;
  write.sync = true;
  ASSERT_TRUE(db->Write(write, &batch).ok());
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    ASSERT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
}

// Makes a data directory with that database.
void MakeDirectory(const TempDirectory& directory, const OldDatabase& old) {
  MakeDatabase(directory.Join("db"), old);
  auto witness = storage::Witness::Open(directory.Join("witness"));
  ASSERT_TRUE((*witness)->Read().ok());
  ASSERT_TRUE(
      (*witness)->Write({WitnessRecord::State::kCreated, old.version, kStoreId, 4, 1}).ok());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Counters Stored(RocksDbStore* store) {
  Counters counters;
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    for (uint32_t topic = 0; topic < 8; ++topic) {
      for (const CountLevel level : storage::kCountLevels) {
        std::vector<BucketCount> counts;
        const absl::Status status = store->ScanCounts(shard, TopicId{topic}, level,
                                                      {0, uint64_t{1} << 60}, kMessages, &counts);
        EXPECT_TRUE(status.ok()) << status;
        for (const BucketCount& count : counts) {
          counters[{shard, TopicId{topic}, level, count.start_ms}] = count;
        }
      }
    }
  }
  return counters;
}

// A directory of an older version, and the file system through which the store opens it.
struct Copy {
  explicit Copy(const std::string& original) {
    fs::copy(original, directory.path(), fs::copy_options::recursive);
  }

  absl::StatusOr<std::unique_ptr<RocksDbStore>> Open() {
    storage::RocksDbStoreOptions options;
    options.data_dir = directory.path();
    // Small, so that RocksDB switches logs during the upgrades, whose writes are small.
    options.write_buffer_bytes = 32 << 10;
    options.block_cache_bytes = 1 << 20;
    options.file_system = file_system;
    return RocksDbStore::Open(options);
  }

  WitnessRecord ReadWitness() const {
    auto witness = storage::Witness::Open(witness_path);
    return (*witness)->Read()->value();
  }
  void WriteFormatVersion(uint32_t version) const {
    auto witness = storage::Witness::Open(witness_path);
    WitnessRecord record = (*witness)->Read()->value();
    record.format_version = version;
    ASSERT_TRUE((*witness)->Write(record).ok());
  }

  const TempDirectory directory;
  const std::string witness_path = directory.Join("witness");
  // The witness bypasses the test's file system, so the test restores its bytes as of the cut.
  std::string witness_at_cut;
  const std::shared_ptr<UnsyncedFileSystem> file_system =
      std::make_shared<UnsyncedFileSystem>([this] { witness_at_cut = ReadFile(witness_path); });
};

// Whether the database holds a part of an upgrade: the place where that to version 2 continues, or
// a counter of a day in version 4. Opens it read-only.
bool UpgradeIsBegun(const std::string& path) {
  rocksdb::ColumnFamilyOptions counts;
  counts.merge_operator = storage::NewCountMergeOperator();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", {}},
                                                                 {"counts", counts}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::OpenForReadOnly({}, path, families, &handles, &opened).ok()) return false;
  const std::unique_ptr<rocksdb::DB> db(opened);
  const auto has = [&](size_t family, const StoreKey& key, std::string* value) {
    return db->Get({}, handles[family], ToSlice(key.bytes()), value).ok();
  };
  std::string value;
  bool begun = has(0, storage::UpgradeKey(), &value);
  if (has(0, storage::FormatVersionKey(), &value) && storage::DecodeNumber(value) == 4) {
    begun = begun || has(1, storage::DayKey(ShardOf(0), TopicOf(0), 0), &value);
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    EXPECT_TRUE(db->DestroyColumnFamilyHandle(handle).ok());
  }
  return begun;
}

class StorageUpgradeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = std::make_unique<TempDirectory>();
    MakeDirectory(*original_, Version1());
  }
  static void TearDownTestSuite() { original_.reset(); }

  static std::unique_ptr<TempDirectory> original_;
};

std::unique_ptr<TempDirectory> StorageUpgradeTest::original_;

TEST_F(StorageUpgradeTest, MessagesAreFoundAndCounted) {
  Copy copy(original_->path());
  for (uint64_t epoch = 5; epoch < 7; ++epoch) {
    auto store = copy.Open();
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->epoch(), epoch);
    EXPECT_EQ((*store)->shard_count(), kShards);
    EXPECT_EQ((*store)->Marks(1)->claim_ms, 99u);
    EXPECT_EQ(Stored(store->get()), Expected());
    storage::MessageRecord record;
    for (uint64_t number = 0; number < kMessages; number += 100) {
      const auto value = (*store)->Get(ShardOf(number), KeyOf(number));
      ASSERT_EQ(*value, ValueOf(number));
      ASSERT_TRUE(storage::DecodeMessageRecord(**value, &record).ok());
    }
    ASSERT_TRUE((*store)->Close().ok());
    EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
  }
}

TEST_F(StorageUpgradeTest, AWitnessAheadOfItsDatabaseIsRefused) {
  Copy copy(original_->path());
  copy.WriteFormatVersion(2);
  EXPECT_EQ(copy.Open().status().code(), absl::StatusCode::kFailedPrecondition)
      << "the families of version 2 are missing";
}

// The power cut lost the last step of an upgrade: the witness's new version.
TEST_F(StorageUpgradeTest, AWitnessBehindItsDatabaseIsBroughtUp) {
  Copy copy(original_->path());
  ASSERT_TRUE((*copy.Open())->Close().ok());
  copy.WriteFormatVersion(1);
  auto store = copy.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Stored(store->get()), Expected()) << "not counted again";
  EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
}

// The power fails again and again until one upgrade completes. Goes on until enough cuts have met
// an upgrade that was begun: RocksDB's threads decide what a cut meets, so a seed does not repeat
// it.
void CutPowerAgainAndAgain(const std::string& original) {
  constexpr int kRounds = 12;
  constexpr int kRoundsMost = 100;
  constexpr uint64_t kWanted = 3;
  std::mt19937_64 random(test::TestSeed(1));
  const Counters expected = Expected();
  uint64_t cuts_on_the_way = 0;
  for (int round = 0; round < kRounds || (cuts_on_the_way < kWanted && round < kRoundsMost);
       ++round) {
    Copy copy(original);
    bool cut = true;
    while (cut) {
      copy.file_system->CutPowerAt(1 + random() % 60);
      auto store = copy.Open();
      cut = copy.file_system->power_is_cut();
      if (!cut) {
        ASSERT_TRUE(store.ok()) << store.status();
        ASSERT_EQ(Stored(store->get()), expected);
        copy.file_system->CutPower();
      }
      if (store.ok()) store->reset();
      copy.file_system->LoseUnsynced(&random);
      std::ofstream(copy.witness_path, std::ios::binary | std::ios::trunc) << copy.witness_at_cut;
      if (cut && UpgradeIsBegun(copy.directory.Join("db"))) ++cuts_on_the_way;
    }
    // The recovered contents survive another open.
    auto store = copy.Open();
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_EQ(Stored(store->get()), expected);
  }
  EXPECT_GE(cuts_on_the_way, kWanted) << "starts must find upgrades that were begun";
}

TEST_F(StorageUpgradeTest, APowerCutCountsNothingTwiceAndLeavesNothingOut) {
  CutPowerAgainAndAgain(original_->path());
}

TEST_F(StorageUpgradeTest, TheCountersOfVersion4BecomeThoseOfDays) {
  const TempDirectory original;
  MakeDirectory(original, Version4());
  Copy copy(original.path());
  auto store = copy.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(Stored(store->get()), Expected());
  EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
  ASSERT_TRUE((*store)->Close().ok());
  CutPowerAgainAndAgain(original.path());
}

// An older program must refuse a directory that may hold what versions 6 to 8 added.
TEST_F(StorageUpgradeTest, Versions5To7GetTheNewVersionAlone) {
  constexpr size_t kTraces = 4;
  const storage::Locator ended = {
      .due_ms = 0,
      .tombstone = storage::Tombstone{.state = storage::EndState::kAcked, .end_ms = 5, .key = "k"}};
  const BucketCount minute{.start_ms = 3 * storage::kMinuteMs, .messages = 1, .bytes = 40};
  for (const uint32_t version : {5u, 6u, 7u}) {
    SCOPED_TRACE(version);
    const TempDirectory original;
    OldDatabase old = Version5();
    old.version = version;
    ASSERT_EQ(old.families[kTraces], "traces");
    old.entries.emplace_back(kTraces, storage::EncodeLocatorKey(2, kListed.id),
                             storage::EncodeLocator(ended));
    MakeDirectory(original, old);
    Copy copy(original.path());
    // The second start refuses a database whose version is older than the witness's.
    for (int start = 0; start < 2; ++start) {
      auto store = copy.Open();
      ASSERT_TRUE(store.ok()) << store.status();
      Counters stored = Stored(store->get());
      EXPECT_EQ((stored[{2, TopicOf(8), CountLevel::kMinute, minute.start_ms}]), minute);
      EXPECT_EQ((*store)->Marks(1)->claim_ms, 99u);
      EXPECT_EQ(*(*store)->GetLocator(2, kListed.id), ended);
      ASSERT_TRUE((*store)->Close().ok());
      EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
    }
  }
}

// Checks that the contents of a version 2 directory are there, and that records new in version 3
// can be written.
void CheckVersion2(RocksDbStore* store) {
  EXPECT_EQ(*store->Get(2, kListed), ValueOf(8));
  EXPECT_EQ(store->BacklogSubscriptions(2)->subscriptions, std::vector{kSubscription});
  EXPECT_EQ(*store->GetBacklog(2, kSubscription, kListed),
            (storage::BacklogEntry{.attempts = 2, .bytes = 3, .maybe_delivered = true}));
  EXPECT_EQ(*store->BacklogClaim(2, kSubscription), kListed);
  EXPECT_EQ(*store->GetObject(storage::ObjectKind::kTopicSettings, 0, "orders"), "settings");
  std::vector<BucketCount> counts;
  EXPECT_TRUE(store->ScanCounts(2, TopicOf(8), CountLevel::kTopic, {0, 1}, 9, &counts).ok());
  EXPECT_EQ(counts, std::vector{(BucketCount{.start_ms = 0, .messages = 1, .bytes = 40})});
}

TEST_F(StorageUpgradeTest, Version2IsTakenAsItIs) {
  const TempDirectory original;
  MakeDirectory(original, Version2());
  Copy copy(original.path());
  auto store = copy.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  CheckVersion2(store->get());
  EXPECT_TRUE((*store)->GetProgress(2, kListed)->empty());
  EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);

  storage::Record progress;
  progress.type = storage::RecordType::kProgress;
  progress.shard = 2;
  progress.key = kListed;
  progress.subscription = kSubscription;
  progress.progress = {.attempts = 3, .retry_ms = 70};
  const std::vector<storage::RecordBatch> group = {{progress}};
  ASSERT_EQ((*store)->Append(group, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->Close().ok());
  store->reset();
  store = copy.Open();
  ASSERT_TRUE(store.ok()) << store.status();
  CheckVersion2(store->get());
  const auto rows = (*store)->GetProgress(2, kListed);
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ((*rows)[0], std::pair(kSubscription, progress.progress));
}

TEST_F(StorageUpgradeTest, APowerCutAnywhereLeavesWhatVersion2Wrote) {
  const TempDirectory original;
  MakeDirectory(original, Version2());
  std::mt19937_64 random(1);
  uint64_t cuts = 0;
  for (uint64_t operation = 1;; ++operation) {
    Copy copy(original.path());
    copy.file_system->CutPowerAt(operation);
    auto store = copy.Open();
    const bool cut = copy.file_system->power_is_cut();
    if (!cut) {
      ASSERT_TRUE(store.ok()) << store.status();
      break;
    }
    ++cuts;
    if (store.ok()) store->reset();
    copy.file_system->LoseUnsynced(&random);
    std::ofstream(copy.witness_path, std::ios::binary | std::ios::trunc) << copy.witness_at_cut;
    store = copy.Open();
    ASSERT_TRUE(store.ok()) << store.status() << " after a cut at operation " << operation;
    CheckVersion2(store->get());
    EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
  }
  EXPECT_GT(cuts, 10u);
}

// Starts the catalog on a store and appends its batches. Returns false if an append fails.
bool StartCatalog(RocksDbStore* store, catalog::SnapshotCell* cell) {
  catalog::Catalog catalog({.shards = kShards}, store);
  if (!catalog.Recover({}).ok()) return false;
  while (auto batch = catalog.TakeBatch()) {
    const std::vector<storage::RecordBatch> group = {batch->records};
    catalog.OnCommitted({}, batch->sequence, store->Append(group, batch->durability));
  }
  if (catalog.failed()) return false;
  cell->Publish(catalog.TakeEffects().snapshot);
  return true;
}

void CheckCatalog(const catalog::Snapshot& snapshot) {
  const catalog::TopicPtr topic = snapshot.FindTopic("orders");
  ASSERT_NE(topic, nullptr);
  EXPECT_EQ(topic->id, TopicOf(8));
  EXPECT_EQ(topic->settings.max_pending, 5u);
  const catalog::SubscriptionPtr subscription = snapshot.FindSubscription(topic->id, "billing");
  ASSERT_NE(subscription, nullptr);
  EXPECT_EQ(subscription->id, kSubscription);
  EXPECT_EQ(subscription->settings.retry.max_attempts, 3u);
}

// The upgrade writes the version; the catalog takes over topics and subscriptions after it.
TEST_F(StorageUpgradeTest, APowerCutAnywhereLeavesTheTopicsOfVersion3) {
  const TempDirectory original;
  MakeDirectory(original, Version3());
  std::mt19937_64 random(1);
  uint64_t cuts_in_catalog = 0;
  for (uint64_t operation = 1;; ++operation) {
    Copy copy(original.path());
    copy.file_system->CutPowerAt(operation);
    auto store = copy.Open();
    const bool opened = store.ok() && !copy.file_system->power_is_cut();
    catalog::SnapshotCell before;
    const bool started = opened && StartCatalog(store->get(), &before);
    if (!copy.file_system->power_is_cut()) {
      ASSERT_TRUE(started);
      CheckCatalog(before.Read());
      break;
    }
    if (opened) ++cuts_in_catalog;
    if (store.ok()) store->reset();
    copy.file_system->LoseUnsynced(&random);
    std::ofstream(copy.witness_path, std::ios::binary | std::ios::trunc) << copy.witness_at_cut;
    for (int start = 0; start < 2; ++start) {
      store = copy.Open();
      ASSERT_TRUE(store.ok()) << store.status() << " after a cut at operation " << operation;
      catalog::SnapshotCell after;
      ASSERT_TRUE(StartCatalog(store->get(), &after));
      CheckCatalog(after.Read());
      EXPECT_EQ(*(*store)->GetObject(storage::ObjectKind::kTopicSettings, 0, "orders"),
                std::nullopt);
      ASSERT_TRUE((*store)->Close().ok());
      store->reset();
    }
    EXPECT_EQ(copy.ReadWitness().format_version, storage::kFormatVersion);
  }
  EXPECT_GT(cuts_in_catalog, 0u);
}

}  // namespace
}  // namespace duetime::test
