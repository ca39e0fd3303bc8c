// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "storage/repair/fetched.h"
#include "storage/rocksdb/checkpoint.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

std::string ReadWhole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A leader with a table and a log, and a member with an empty store.
class FetchedDirectoryTest : public testing::Test {
 protected:
  FetchedDirectoryTest() {
    for (const uint64_t groups : {1u, 2u}) {
      const auto store = Open(Leader());
      Apply(store.get(), groups);
      // The next opening writes a table.
      if (groups == 2) {
        EXPECT_TRUE(store->WriteCheckpoint(Checkpoint()).ok());
      }
    }
    files_ = ListCheckpoint(Checkpoint()).value();
    Open(Member());
  }

  std::string Leader() const { return directory_.path() + "/leader"; }
  std::string Member() const { return directory_.path() + "/member"; }
  std::string Checkpoint() const { return directory_.path() + "/checkpoint"; }

  static std::unique_ptr<RocksDbStore> Open(const std::string& path) {
    RocksDbStoreOptions options;
    options.data_dir = path;
    options.use = RocksDbStoreOptions::Use::kInCell;
    auto store = RocksDbStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  static void Apply(RocksDbStore* store, uint64_t groups) {
    const std::vector<RecordBatch> group = {{Record{.type = RecordType::kObject,
                                                    .shard = kNoShard,
                                                    .kind = static_cast<uint8_t>(ObjectKind::kCell),
                                                    .name = "leader",
                                                    .value = std::string(groups, 'v')}}};
    const LogPlace place{.offset = groups, .epoch = 1, .groups = groups, .log = 5};
    ASSERT_TRUE(store->ApplyLogged(group, place).ok());
  }

  // Reads in parts of 1,000 bytes; fails at read number `fail_at`.
  absl::Status Fetch(FetchedDirectory* fetched, int fail_at = -1) {
    for (const CheckpointFile& file : files_) {
      const std::string bytes = ReadWhole(Checkpoint() + "/" + file.path);
      const absl::Status status =
          fetched->Store(file, [&](uint64_t offset) -> absl::StatusOr<std::string> {
            if (fail_at-- == 0) return absl::UnavailableError("gone");
            return bytes.substr(offset, 1'000);
          });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  uint64_t GroupsOfMember() { return Open(Member())->log_place().groups; }

  test::TempDirectory directory_;
  std::vector<CheckpointFile> files_;
};

TEST_F(FetchedDirectoryTest, PutsWhatWasFetchedInThePlaceOfTheOldStore) {
  auto fetched = FetchedDirectory::Begin(Member(), files_);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_TRUE(Fetch(&*fetched).ok());
  ASSERT_TRUE(TakeFetched(Member()).ok());
  EXPECT_EQ(GroupsOfMember(), 0u) << "taken before it was published";
  const absl::Status published = fetched->Publish({}, {});
  ASSERT_TRUE(published.ok()) << published;
  EXPECT_EQ(GroupsOfMember(), 0u);
  ASSERT_TRUE(TakeFetched(Member()).ok());
  EXPECT_EQ(GroupsOfMember(), 2u);
  EXPECT_FALSE(fs::exists(Member() + "/fetched"));
}

TEST_F(FetchedDirectoryTest, ACrashAtAnyStepOfTakingIsHealedByTheNextStart) {
  for (const std::vector<std::string>& moved :
       {std::vector<std::string>{}, {"db"}, {"db", "witness"}}) {
    auto fetched = FetchedDirectory::Begin(Member(), files_);
    ASSERT_TRUE(Fetch(&*fetched).ok() && fetched->Publish({}, {}).ok());
    for (const std::string& name : moved) {
      fs::remove_all(Member() + "/" + name);
      fs::rename(Member() + "/fetched/store/" + name, Member() + "/" + name);
    }
    ASSERT_TRUE(TakeFetched(Member()).ok());
    EXPECT_EQ(GroupsOfMember(), 2u) << moved.size();
    fs::remove_all(Member());
    Open(Member());
  }
}

TEST_F(FetchedDirectoryTest, ALaterAttemptReadsNoWholeTableAgain) {
  uint64_t all = 0;
  for (int fail_at = 0;; ++fail_at) {
    auto fetched = FetchedDirectory::Begin(Member(), files_);
    ASSERT_TRUE(fetched.ok());
    const absl::Status status = Fetch(&*fetched, fail_at);
    fs::remove_all(Member() + "/fetched");
    if (status.ok()) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
  {
    auto first = FetchedDirectory::Begin(Member(), files_);
    ASSERT_TRUE(Fetch(&*first).ok());
    all = first->bytes_read();
  }
  uint64_t tables = 0;
  for (const CheckpointFile& file : files_) tables += file.unique_id.empty() ? 0 : file.bytes;
  ASSERT_GT(tables, 0u);
  auto again = FetchedDirectory::Begin(Member(), files_);
  ASSERT_TRUE(Fetch(&*again).ok());
  EXPECT_EQ(again->bytes_read(), all - tables);
  EXPECT_TRUE(again->Publish({}, {}).ok());
}

TEST_F(FetchedDirectoryTest, RefusesTheStoreOfAnotherCellAndAnOlderOne) {
  auto fetched = FetchedDirectory::Begin(Member(), files_);
  ASSERT_TRUE(Fetch(&*fetched).ok());
  for (const LogPlace& before : {LogPlace{.offset = 1, .epoch = 1, .groups = 1, .log = 6},
                                 LogPlace{.offset = 2, .epoch = 1, .groups = 2, .log = 5}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(fetched->Publish({}, before))) << before.log;
    ASSERT_TRUE(TakeFetched(Member()).ok());
    EXPECT_EQ(GroupsOfMember(), 0u);
  }
  EXPECT_TRUE(fetched->Publish({}, {.offset = 1, .epoch = 1, .groups = 1, .log = 5}).ok());
  RocksDbStoreOptions alone;
  alone.data_dir = directory_.path() + "/alone";
  ASSERT_TRUE(RocksDbStore::Open(alone).ok());
  const std::string path = Member() + "/fetched/store";
  fs::remove_all(path);
  fs::copy(alone.data_dir, path, fs::copy_options::recursive);
  EXPECT_TRUE(absl::IsFailedPrecondition(fetched->Publish({}, {})));
}

TEST_F(FetchedDirectoryTest, KeepsNoTableOfAnotherCheckpoint) {
  const std::string tables = Member() + "/fetched/tables/";
  auto fetched = FetchedDirectory::Begin(Member(), files_);
  ASSERT_TRUE(Fetch(&*fetched).ok());
  std::ofstream(tables + "abcd") << "x";
  std::ofstream(tables + "ef.part") << "x";
  const auto count = [&] { return std::distance(fs::directory_iterator(tables), {}); };
  const auto all = count();
  fetched = FetchedDirectory::Begin(Member(), files_);
  EXPECT_EQ(count(), all - 2);
  files_.push_back({.path = "db/9.sst", .bytes = uint64_t{1} << 49, .unique_id = "00"});
  EXPECT_TRUE(absl::IsFailedPrecondition(FetchedDirectory::Begin(Member(), files_).status()));
  files_.back().bytes = uint64_t{1} << 63;
  EXPECT_TRUE(absl::IsInvalidArgument(FetchedDirectory::Begin(Member(), files_).status()));
}

TEST_F(FetchedDirectoryTest, RefusesDamageAndForeignPaths) {
  auto fetched = FetchedDirectory::Begin(Member(), files_);
  const auto zeros = [](uint64_t) { return std::string(10, '\0'); };
  for (const char* const path : {"../db/x", "db/../x", "db/a/b", "db/", "init", "/etc/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        fetched->Store({.path = path, .bytes = 10, .unique_id = ""}, zeros)))
        << path;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      fetched->Store({.path = "db/1.sst", .bytes = 10, .unique_id = "../a"}, zeros)));
  EXPECT_TRUE(
      absl::IsInternal(fetched->Store({.path = "db/1.log", .bytes = 5, .unique_id = ""}, zeros)));
  // Of most tables a start reads nothing but the end.
  for (const CheckpointFile& damaged : files_) {
    if (damaged.unique_id.empty()) continue;
    fetched = FetchedDirectory::Begin(Member(), files_);
    for (const CheckpointFile& file : files_) {
      std::string bytes = ReadWhole(Checkpoint() + "/" + file.path);
      if (file.path == damaged.path) bytes[10] ^= 1;
      ASSERT_TRUE(fetched->Store(file, [&](uint64_t at) { return bytes.substr(at); }).ok());
    }
    EXPECT_TRUE(absl::IsDataLoss(fetched->Publish({}, {}))) << damaged.path;
  }
  ASSERT_TRUE(TakeFetched(Member()).ok());
  EXPECT_EQ(GroupsOfMember(), 0u);
}

}  // namespace
}  // namespace duetime::storage
