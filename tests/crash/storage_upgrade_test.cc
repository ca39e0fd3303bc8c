// SPDX-License-Identifier: Apache-2.0
//
// Plays the next format versions: opens a directory of today's version with upgrades that do not
// exist yet, and cuts the power at every stage of them.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <rocksdb/db.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/count_group.h"
#include "storage/key_codec.h"
#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "storage/rocksdb/witness.h"
#include "storage/value_codec.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_seed.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using storage::ColumnFamily;
using storage::CountDelta;
using storage::FormatUpgrade;
using storage::kFormatVersion;
using storage::KvStore;
using storage::MessageId;
using storage::RocksDbDatabase;
using storage::RocksDbStore;
using storage::TopicId;
using storage::WitnessRecord;

constexpr uint16_t kShards = 3;
constexpr uint64_t kMessages = 6'000;
constexpr uint64_t kMessagesPerWrite = 1'000;
constexpr TopicId kTopic{1};
constexpr TopicId kCountedAgain{1'000};

rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

// A pretended upgrade: counts each message once more, for a topic of its own. The counters show
// which messages a crash made it repeat or skip, because a write adds to them.
absl::Status CountAgain(KvStore* store) {
  const auto noted = store->source()->Get(ColumnFamily::kMeta, storage::UpgradeKey().bytes());
  if (!noted.ok()) return noted.status();
  std::string place = noted->value_or("");
  while (place != storage::kLastKey) {
    const auto messages = store->source()->NewReader(ColumnFamily::kMessages, place,
                                                     storage::kLastKey, storage::OnDamage::kFail);
    storage::CountGroup counts;
    for (uint64_t i = 0; i < kMessagesPerWrite && messages->Valid(); ++i, messages->Next()) {
      const absl::string_view key = messages->key();
      counts.Add(*storage::DecodeShard(key), kCountedAgain, storage::DecodeMessageKey(key)->due_ms,
                 {.messages = 1, .bytes = static_cast<int64_t>(messages->value().size())});
    }
    const std::string next(messages->Valid() ? messages->key() : storage::kLastKey);
    absl::Status status = store->Append(
        [&](storage::KvBatch* batch) {
          counts.ForEachChange([batch](const storage::StoreKey& key, absl::string_view change) {
            batch->Merge(key.family(), key.bytes(), change);
          });
          batch->Put(ColumnFamily::kMeta, storage::UpgradeKey().bytes(), next);
        },
        storage::Durability::kBuffered);
    if (!status.ok()) return status;
    place = next;
  }
  return absl::OkStatus();
}

constexpr FormatUpgrade kUpgrades[] = {CountAgain, CountAgain};

// The upgrades of a program that is `versions` ahead of this one.
std::span<const FormatUpgrade> Ahead(size_t versions) { return {kUpgrades, versions}; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

storage::RocksDbStoreOptions Options(const std::string& path) {
  storage::RocksDbStoreOptions options;
  options.data_dir = path;
  options.shards = kShards;
  // Small, so that RocksDB switches logs during the upgrades, whose writes are small.
  options.write_buffer_bytes = 32 << 10;
  options.block_cache_bytes = 1 << 20;
  return options;
}

// Makes a directory of today's version with messages.
void MakeDirectory(const std::string& path) {
  auto store = RocksDbStore::Open(Options(path));
  ASSERT_TRUE(store.ok()) << store.status();
  const std::string value =
      storage::EncodeMessageRecord({.header = {kTopic, 1, 1}, .payload = "payload"});
  storage::RecordBatch batch;
  for (uint64_t number = 0; number < kMessages; ++number) {
    storage::Record record;
    record.type = storage::RecordType::kAccept;
    record.shard = static_cast<uint16_t>(number % kShards);
    record.topic = kTopic;
    record.key = {7'000 * number, MessageId::Make(1, number, 0, 7'000 * number)};
    record.value = value;
    batch.push_back(std::move(record));
  }
  const std::vector<storage::RecordBatch> group = {std::move(batch)};
  ASSERT_EQ((*store)->Append(group, storage::Durability::kSynced),
            storage::AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->Close().ok());
}

// The counters of a topic, by shard.
std::vector<CountDelta> CountsOf(RocksDbDatabase* database, TopicId topic) {
  std::vector<CountDelta> counts;
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    std::string value;
    database->db()
        ->Get({}, database->handle(ColumnFamily::kCounts),
              ToSlice(storage::CountKey(shard, topic).bytes()), &value)
        .PermitUncheckedError();
    counts.push_back(storage::DecodeCountDelta(value).value_or(CountDelta{}));
  }
  return counts;
}

// A copy of a directory, and the file system through which the database opens it.
struct Copy {
  explicit Copy(const std::string& original) {
    fs::copy(original, directory.path(), fs::copy_options::recursive);
  }

  // Opens it as a program that is `versions` ahead.
  absl::StatusOr<std::unique_ptr<RocksDbDatabase>> Open(size_t versions) {
    storage::RocksDbStoreOptions options = Options(directory.path());
    options.file_system = file_system;
    return RocksDbDatabase::Open(options, Ahead(versions));
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
  void ExpectRefused(size_t versions, const std::string& text) {
    const absl::Status status = Open(versions).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(text));
  }

  const TempDirectory directory;
  const std::string witness_path = directory.Join("witness");
  // The witness bypasses the test's file system, so the test restores its bytes as of the cut.
  std::string witness_at_cut;
  const std::shared_ptr<UnsyncedFileSystem> file_system =
      std::make_shared<UnsyncedFileSystem>([this] { witness_at_cut = ReadFile(witness_path); });
};

// Whether the database holds a part of an upgrade. Opens it read-only.
bool UpgradeIsBegun(const std::string& path) {
  rocksdb::DB* opened = nullptr;
  if (!rocksdb::DB::OpenForReadOnly({}, path, &opened).ok()) return false;
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::string value;
  return db->Get({}, ToSlice(storage::UpgradeKey().bytes()), &value).ok();
}

class StorageUpgradeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = std::make_unique<TempDirectory>();
    MakeDirectory(original_->path());
  }
  static void TearDownTestSuite() { original_.reset(); }

  // Each message was counted once by its accept, and once by each upgrade.
  static void ExpectUpgraded(RocksDbDatabase* database, int64_t upgrades) {
    const std::vector<CountDelta> counted = CountsOf(database, kTopic);
    std::vector<CountDelta> again = CountsOf(database, kCountedAgain);
    for (size_t shard = 0; shard < kShards; ++shard) {
      EXPECT_EQ(counted[shard].messages, static_cast<int64_t>(kMessages / kShards));
      EXPECT_EQ(again[shard].messages, upgrades * counted[shard].messages);
      EXPECT_EQ(again[shard].bytes, upgrades * counted[shard].bytes);
    }
    EXPECT_EQ(*database->ReadMeta(storage::UpgradeKey()), "");
    EXPECT_EQ(storage::DecodeNumber(*database->ReadMeta(storage::FormatVersionKey())),
              kFormatVersion + static_cast<uint64_t>(upgrades));
  }

  static std::unique_ptr<TempDirectory> original_;
};

std::unique_ptr<TempDirectory> StorageUpgradeTest::original_;

TEST_F(StorageUpgradeTest, EachUpgradeRunsOnceInTheOrderOfTheVersions) {
  // By how many versions the programs of the starts are ahead.
  const std::vector<std::vector<size_t>> runs = {{0, 0}, {1, 1}, {2, 2}, {0, 1, 2, 2}};
  for (const std::vector<size_t>& starts : runs) {
    Copy copy(original_->path());
    for (const size_t versions : starts) {
      SCOPED_TRACE(versions);
      auto database = copy.Open(versions);
      ASSERT_TRUE(database.ok()) << database.status();
      ExpectUpgraded(database->get(), static_cast<int64_t>(versions));
      ASSERT_TRUE((*database)->Close().ok());
      EXPECT_EQ(copy.ReadWitness().format_version, kFormatVersion + versions);
    }
  }
}

TEST_F(StorageUpgradeTest, AnOlderProgramRefusesAnUpgradedDirectory) {
  Copy copy(original_->path());
  ASSERT_TRUE((*copy.Open(2))->Close().ok());
  copy.ExpectRefused(1, absl::StrCat("format version ", kFormatVersion + 2));
  // The version in the database is refused as well, when the witness has an older one.
  copy.WriteFormatVersion(kFormatVersion);
  copy.ExpectRefused(0, absl::StrCat("format version ", kFormatVersion + 2));
}

TEST_F(StorageUpgradeTest, AWitnessAheadOfItsDatabaseIsRefused) {
  Copy copy(original_->path());
  copy.WriteFormatVersion(kFormatVersion + 1);
  copy.ExpectRefused(1, absl::StrCat("format version ", kFormatVersion, ", "));
}

// The power cut lost the last step of an upgrade: the witness's new version.
TEST_F(StorageUpgradeTest, AWitnessBehindItsDatabaseIsBroughtUp) {
  Copy copy(original_->path());
  ASSERT_TRUE((*copy.Open(1))->Close().ok());
  copy.WriteFormatVersion(kFormatVersion);
  auto database = copy.Open(1);
  ASSERT_TRUE(database.ok()) << database.status();
  ExpectUpgraded(database->get(), 1);
  EXPECT_EQ(copy.ReadWitness().format_version, kFormatVersion + 1);
}

// The power fails again and again until the upgrades complete. Goes on until enough cuts have met
// an upgrade that was begun: RocksDB's threads decide what a cut meets, so a seed does not repeat
// it.
TEST_F(StorageUpgradeTest, APowerCutRepeatsNothingAndLeavesNothingOut) {
  constexpr int kRounds = 12;
  constexpr int kRoundsMost = 100;
  constexpr uint64_t kWanted = 3;
  std::mt19937_64 random(test::TestSeed(1));
  uint64_t cuts_on_the_way = 0;
  for (int round = 0; round < kRounds || (cuts_on_the_way < kWanted && round < kRoundsMost);
       ++round) {
    Copy copy(original_->path());
    bool cut = true;
    while (cut) {
      copy.file_system->CutPowerAt(1 + random() % 60);
      auto database = copy.Open(2);
      cut = copy.file_system->power_is_cut();
      if (!cut) {
        ASSERT_TRUE(database.ok()) << database.status();
        ExpectUpgraded(database->get(), 2);
        copy.file_system->CutPower();
      }
      if (database.ok()) database->reset();
      copy.file_system->LoseUnsynced(&random);
      std::ofstream(copy.witness_path, std::ios::binary | std::ios::trunc) << copy.witness_at_cut;
      if (cut && UpgradeIsBegun(copy.directory.Join("db"))) ++cuts_on_the_way;
    }
    // The recovered contents survive another open.
    auto database = copy.Open(2);
    ASSERT_TRUE(database.ok()) << database.status();
    ExpectUpgraded(database->get(), 2);
  }
  EXPECT_GE(cuts_on_the_way, kWanted) << "starts must find upgrades that were begun";
}

}  // namespace
}  // namespace duetime::test
