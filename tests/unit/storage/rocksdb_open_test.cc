// SPDX-License-Identifier: Apache-2.0
//
// Creates, opens and closes data directories. The tests in tests/crash cover damaged ones.
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <set>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/repair/fetched.h"
#include "storage/repair/new_directory.h"
#include "storage/repair/verify.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "storage/rocksdb/witness.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RocksDbOpenTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(uint16_t shards = 0) {
    RocksDbStoreOptions options;
    options.data_dir = data_dir_;
    options.shards = shards;
    options.shards_if_new = 3;
    options.create_if_missing = create_if_missing_;
    options.write_buffer_bytes = 64 << 10;
    options.block_cache_bytes = 1 << 20;
    return RocksDbStore::Open(options);
  }

  // Opens and closes the store once.
  absl::Status OpenOnce(uint16_t shards = 0) {
    auto store = Open(shards);
    return store.ok() ? (*store)->Close() : store.status();
  }

  AppendOutcome AppendMark(RocksDbStore* store, uint64_t mark_ms, Durability durability) {
    Record record;
    record.type = RecordType::kClaim;
    record.mark_ms = mark_ms;
    const std::vector<RecordBatch> group = {{record}};
    return store->Append(group, durability);
  }

  WitnessRecord ReadWitness() {
    auto witness = Witness::Open(data_dir_ + "/witness");
    EXPECT_TRUE(witness.ok());
    return (*witness)->Read()->value();
  }

  const test::TempDirectory directory_;
  const std::string data_dir_ = directory_.Join("data");
  bool create_if_missing_ = true;
};

TEST_F(RocksDbOpenTest, ItIsCreatedPrivate) {
  const mode_t before = ::umask(0022);
  EXPECT_TRUE(OpenOnce().ok());
  ::umask(before);
  for (const std::string& path : {data_dir_, data_dir_ + "/db"}) {
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u) << path;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir_ + "/db")) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("LOG")) << "logs go to the callback";
  }
}

TEST_F(RocksDbOpenTest, TheShardCountIsFixedWhenItIsCreated) {
  {
    auto store = Open(/*shards=*/5);
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ((*store)->shard_count(), 5);
  }
  EXPECT_TRUE(OpenOnce(5).ok());
  const absl::Status other = OpenOnce(4);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.message()), HasSubstr("created with 5 shards"));
  auto store = Open(/*shards=*/0);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->shard_count(), 5) << "0 takes the store's number, not shards_if_new";
}

TEST_F(RocksDbOpenTest, ANewStoreGetsItsDefaultShards) {
  auto store = Open(/*shards=*/0);
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->shard_count(), 3);
}

TEST_F(RocksDbOpenTest, MoreShardsThanSlotsAreRefused) {
  EXPECT_EQ(OpenOnce(MessageId::kSlotCount + 1).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(OpenOnce(MessageId::kSlotCount).ok()) << "the refusal left nothing behind";
}

TEST_F(RocksDbOpenTest, OneProcessAtATime) {
  auto store = Open();
  ASSERT_TRUE(store.ok());
  const auto second = Open();
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
  EXPECT_EQ(AppendMark(store->get(), 1, Durability::kSynced), AppendOutcome::kAccepted);
  store->reset();
  EXPECT_TRUE(Open().ok());
}

TEST_F(RocksDbOpenTest, RocksDbsOwnLockIsRespected) {
  ASSERT_TRUE(OpenOnce().ok());
  rocksdb::BlockBasedTableOptions table;
  // The only format of tables that our store reads. RocksDB's default depends on its version.
  table.format_version = 5;
  rocksdb::Options options;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  std::vector<std::string> families;
  ASSERT_TRUE(rocksdb::DB::ListColumnFamilies(options, data_dir_ + "/db", &families).ok());
  const std::vector<rocksdb::ColumnFamilyDescriptor> descriptors = [&families, &options] {
    std::vector<rocksdb::ColumnFamilyDescriptor> all;
    for (const std::string& family : families) all.push_back({family, options});
    return all;
  }();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ASSERT_TRUE(rocksdb::DB::Open(options, data_dir_ + "/db", descriptors, &handles, &db).ok());
  EXPECT_EQ(OpenOnce().code(), absl::StatusCode::kUnavailable);
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  delete db;
  EXPECT_TRUE(OpenOnce().ok());
}

TEST_F(RocksDbOpenTest, AMissingParentIsAnError) {
  RocksDbStoreOptions options;
  options.data_dir = directory_.Join("no/such");
  EXPECT_EQ(RocksDbStore::Open(options).status().code(), absl::StatusCode::kInternal);
}

// An unmounted volume leaves a missing or an empty directory.
TEST_F(RocksDbOpenTest, AStoreIsCreatedOnlyWithConsent) {
  create_if_missing_ = false;
  const auto expect_refused = [this](const char* what) {
    const absl::Status status = OpenOnce();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Is the volume mounted?")) << what;
    EXPECT_FALSE(fs::exists(data_dir_ + "/witness")) << what;
  };
  expect_refused("a missing directory");
  EXPECT_FALSE(fs::exists(data_dir_));
  fs::create_directories(data_dir_ + "/lost+found");
  expect_refused("a new volume");
  fs::create_directory(data_dir_ + "/db");
  expect_refused("a database without files");

  std::ofstream(data_dir_ + "/init").close();
  EXPECT_TRUE(OpenOnce().ok());
  EXPECT_FALSE(fs::exists(data_dir_ + "/init")) << "it allows one store";
  EXPECT_TRUE(OpenOnce().ok()) << "an existing store needs no consent";
  fs::remove_all(data_dir_ + "/db");
  fs::remove(data_dir_ + "/witness");
  expect_refused("a store that was removed");
}

// The paths of all files of the directory.
std::set<std::string> FilesOf(const std::string& directory) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) files.insert(entry.path());
  return files;
}

TEST_F(RocksDbOpenTest, AStoreIsCreatedInAnEmptyDirectoryOnly) {
  using Make = absl::Status (*)(const std::string& directory);
  const auto start = [](const std::string& directory) {
    RocksDbStoreOptions options;
    options.data_dir = directory;
    options.own_file = directory + "/audit.log";
    options.create_if_missing = !fs::exists(directory + "/init");
    return RocksDbStore::Open(options).status();
  };
  const Make fetch = [](const std::string& directory) {
    RocksDbStoreOptions options;
    options.data_dir = directory;
    options.use = RocksDbStoreOptions::Use::kInCell;
    if (absl::Status status = TakeFetched(directory); !status.ok()) return status;
    return RocksDbStore::Open(options).status();
  };
  // Repairs and restores write through it.
  const Make copy = [](const std::string& directory) {
    return NewDirectory::Create("/no/source", directory).status();
  };
  for (const char* const name : {"notes.txt", ".hidden", "witness.old", "unfinished/db/CURRENT",
                                 "fetched/mine", "fetched/tables/mine", "wal/1.log", "initial"}) {
    for (const bool consent : {false, true}) {
      for (const Make make : {Make{start}, fetch, copy}) {
        const test::TempDirectory directory;
        if (consent) std::ofstream(directory.Join("init")).close();
        fs::create_directories(fs::path(directory.Join(name)).parent_path());
        std::ofstream(directory.Join(name)) << "mine";
        const std::set<std::string> before = FilesOf(directory.path());
        const absl::Status status = make(directory.path());
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << name << " " << status;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("is not an empty directory: it holds"));
        EXPECT_EQ(FilesOf(directory.path()), before) << name;
      }
    }
  }
  for (const char* const name : {"lost+found/", "db/", "db/LOCK", "witness", "audit.log.1"}) {
    const test::TempDirectory directory;
    fs::create_directories(fs::path(directory.Join(name)).parent_path());
    if (std::string(name).back() != '/') std::ofstream(directory.Join(name)).close();
    EXPECT_TRUE(start(directory.path()).ok()) << name << " " << start(directory.path());
  }
}

TEST_F(RocksDbOpenTest, AForeignWitnessIsLeftAlone) {
  for (const size_t bytes : {1u, 64u, 5'000u}) {
    const test::TempDirectory directory;
    const std::string mine(bytes, 'm');
    std::ofstream(directory.Join("witness")) << mine;
    RocksDbStoreOptions options;
    options.data_dir = directory.path();
    EXPECT_EQ(RocksDbStore::Open(options).status().code(), absl::StatusCode::kDataLoss) << bytes;
    std::ifstream file(directory.Join("witness"));
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), mine);
    EXPECT_FALSE(fs::exists(directory.Join("db")));
  }
}

TEST_F(RocksDbOpenTest, AForeignDirectoryIsLeftAlone) {
  fs::create_directories(data_dir_ + "/db");
  std::ofstream(data_dir_ + "/db/precious.txt") << "mine";
  EXPECT_EQ(OpenOnce().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(fs::exists(data_dir_ + "/db/precious.txt"));
}

// A new store's manifest ends with the creation of the column families.
TEST_F(RocksDbOpenTest, AManifestThatLacksAColumnFamilyIsDamage) {
  const std::string crashed = directory_.Join("crashed");
  std::string manifest;
  {
    auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    fs::copy(data_dir_, crashed, fs::copy_options::recursive);
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(crashed + "/db")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("MANIFEST")) manifest = std::max(manifest, data_dir_ + "/db/" + name);
  }
  int lacking = 0;
  for (uintmax_t cut = 1; cut < 200; cut += 20) {
    fs::remove_all(data_dir_);
    fs::copy(crashed, data_dir_, fs::copy_options::recursive);
    ASSERT_GT(fs::file_size(manifest), cut);
    fs::resize_file(manifest, fs::file_size(manifest) - cut);
    const uintmax_t size = fs::file_size(manifest);
    // The second start finds no torn end any more.
    for (int start = 0; start < 2; ++start) {
      const absl::Status verdict = VerifyDirectory(data_dir_, [](absl::string_view) {});
      const absl::Status status = OpenOnce();
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << cut << " " << status;
      EXPECT_EQ(verdict.ok(), status.ok()) << cut << " " << verdict;
      if (absl::StrContains(status.message(), "lacks the column family")) ++lacking;
      if (!status.ok()) {
        EXPECT_EQ(fs::file_size(manifest), size) << "a refused start trims nothing";
      }
    }
  }
  EXPECT_GT(lacking, 0);
}

// The creation was interrupted at each of its stages.
TEST_F(RocksDbOpenTest, AnInterruptedCreationIsBegunAgain) {
  const WitnessRecord creating{WitnessRecord::State::kCreating, kFormatVersion, StoreId{1, 2}, 0,
                               0};
  fs::create_directory(data_dir_);
  // The first write of the witness was torn.
  std::ofstream(data_dir_ + "/witness") << std::string(4160, '\0');
  EXPECT_TRUE(OpenOnce().ok());

  // The witness was written, but there is no database yet, or only some of its files.
  for (const bool with_files : {false, true}) {
    fs::remove_all(data_dir_);
    fs::create_directories(data_dir_ + "/db");
    auto witness = Witness::Open(data_dir_ + "/witness");
    ASSERT_TRUE((*witness)->Read().ok());
    ASSERT_TRUE((*witness)->Write(creating).ok());
    if (with_files) std::ofstream(data_dir_ + "/db/MANIFEST-000001") << "part of";
    const absl::Status status = OpenOnce();
    EXPECT_TRUE(status.ok()) << status;
  }

  // Everything is complete except the last write of the witness.
  auto witness = Witness::Open(data_dir_ + "/witness");
  WitnessRecord record = (*witness)->Read()->value();
  EXPECT_EQ(record.state, WitnessRecord::State::kCreated);
  record.state = WitnessRecord::State::kCreating;
  ASSERT_TRUE((*witness)->Write(record).ok());
  auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_GE((*store)->epoch(), 2u);
  EXPECT_EQ(ReadWitness().state, WitnessRecord::State::kCreated);
}

TEST_F(RocksDbOpenTest, ACopyHasTheEpochsOfTheOriginalAndOtherSequences) {
  ASSERT_TRUE(OpenOnce().ok());
  const std::string copy = directory_.Join("copy");
  fs::copy(data_dir_, copy, fs::copy_options::recursive);
  uint64_t epochs[2] = {};
  uint64_t sequences[2] = {};
  for (int i = 0; i < 2; ++i) {
    RocksDbStoreOptions options;
    options.data_dir = i == 0 ? data_dir_ : copy;
    auto store = RocksDbStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    epochs[i] = (*store)->epoch();
    sequences[i] = (*store)->first_sequence();
    EXPECT_GE(sequences[i], 1u);
    EXPECT_LE(sequences[i], MessageId::kFirstSequenceMax);
  }
  EXPECT_EQ(epochs[0], epochs[1]);
  // Equal once in 2^38.
  EXPECT_NE(sequences[0], sequences[1]);
}

TEST_F(RocksDbOpenTest, ACopyClaimsWhatTheOriginalMayHaveHandedOut) {
  constexpr SubscriptionId kSubscription{5};
  int warnings = 0;
  const auto open = [&](const std::string& data_dir, uint64_t now_ms) {
    RocksDbStoreOptions options;
    options.data_dir = data_dir;
    options.shards_if_new = 2;
    options.now_ms = now_ms;
    options.log = [&](RocksDbStoreOptions::LogLevel, absl::string_view text) {
      if (absl::StrContains(text, "is a copy or was restored")) ++warnings;
    };
    auto store = RocksDbStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  };
  const auto expect = [&](RocksDbStore* store, uint64_t claim_0, uint64_t claim_1,
                          const std::optional<MessageKey>& backlog) {
    EXPECT_EQ(store->Marks(0)->claim_ms, claim_0);
    EXPECT_EQ(store->Marks(1)->claim_ms, claim_1);
    EXPECT_EQ(*store->BacklogClaim(0, kSubscription), backlog);
    EXPECT_TRUE(store->Close().ok());
  };
  auto store = open(data_dir_, 100);
  RecordBatch batch(2);
  batch[0].type = RecordType::kClaim;
  batch[0].shard = 1;
  batch[0].mark_ms = 150;
  batch[1].type = RecordType::kSpill;
  batch[1].subscription = kSubscription;
  batch[1].key = {.due_ms = 90, .id = MessageId::Make(1, 1, 0, 90)};
  ASSERT_EQ(store->Append(std::vector<RecordBatch>{batch}, Durability::kSynced),
            AppendOutcome::kAccepted);
  expect(store.get(), 0, 150, std::nullopt);

  // A directory under another name is no copy.
  const std::string moved = directory_.Join("moved");
  store.reset();
  fs::rename(data_dir_, moved);
  store = open(moved, 200);
  expect(store.get(), 0, 150, std::nullopt);
  EXPECT_EQ(warnings, 0);

  // Only the first start of a copy claims, and never less than before.
  fs::copy(moved, data_dir_, fs::copy_options::recursive);
  const MessageKey until = {.due_ms = 140, .id = {.high = UINT64_MAX, .low = UINT64_MAX}};
  for (const uint64_t now_ms : {uint64_t{140}, uint64_t{300}}) {
    store.reset();
    store = open(data_dir_, now_ms);
    expect(store.get(), 140, 150, until);
    EXPECT_EQ(warnings, 1);
  }
}

TEST_F(RocksDbOpenTest, TheWitnessFollowsTheSyncedAppendsOnly) {
  auto store = Open();
  ASSERT_TRUE(store.ok());
  const WitnessRecord at_open = ReadWitness();
  EXPECT_EQ(at_open.state, WitnessRecord::State::kCreated);
  EXPECT_EQ(at_open.epoch, (*store)->epoch());
  EXPECT_GT(at_open.durable_sequence, 0u);

  EXPECT_EQ(AppendMark(store->get(), 1, Durability::kBuffered), AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->WriteWitness().ok());
  EXPECT_EQ(ReadWitness(), at_open) << "nothing was synced";

  EXPECT_EQ(AppendMark(store->get(), 2, Durability::kSynced), AppendOutcome::kAccepted);
  EXPECT_EQ(ReadWitness(), at_open) << "it is written when asked to";
  ASSERT_TRUE((*store)->WriteWitness().ok());
  EXPECT_EQ(ReadWitness().durable_sequence, at_open.durable_sequence + 2) << "both are durable now";

  EXPECT_EQ(AppendMark(store->get(), 3, Durability::kBuffered), AppendOutcome::kAccepted);
  ASSERT_TRUE((*store)->Close().ok());
  EXPECT_EQ(ReadWitness().durable_sequence, at_open.durable_sequence + 3) << "closing syncs";
}

TEST_F(RocksDbOpenTest, FiguresForTheMetrics) {
  auto store = Open();
  ASSERT_TRUE(store.ok());
  for (uint64_t i = 0; i < 400; ++i) {
    Record record;
    record.type = RecordType::kAccept;
    record.key = {i, MessageId::Make(1, i, 0, i)};
    const std::string payload(1000, 'x');
    record.value = EncodeMessageRecord({.payload = payload});
    const std::vector<RecordBatch> group = {{record}};
    ASSERT_EQ((*store)->Append(group, Durability::kBuffered), AppendOutcome::kAccepted);
  }
  const RocksDbStats stats = (*store)->Stats();
  EXPECT_GT(stats.wal_bytes, 0u);
  EXPECT_GT(stats.memtable_bytes, 0u);
  EXPECT_FALSE(stats.fenced);
  EXPECT_FALSE(stats.writes_stopped);
  const auto free_bytes = (*store)->DiskFreeBytes();
  ASSERT_TRUE(free_bytes.ok());
  EXPECT_GT(*free_bytes, 0u);
  ASSERT_TRUE((*store)->Close().ok());
  store->reset();
  store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_GT((*store)->Stats().table_bytes, 0u) << "the start wrote the log out";
}

}  // namespace
}  // namespace duetime::storage
