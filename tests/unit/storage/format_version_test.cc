// SPDX-License-Identifier: Apache-2.0
//
// Which format versions each reader of a directory takes.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/checkpoint_file.h"
#include "storage/repair/fetched.h"
#include "storage/repair/repair.h"
#include "storage/repair/restore.h"
#include "storage/repair/verify.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/witness.h"
#include "storage/value_codec.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Use = RocksDbStoreOptions::Use;

TEST(FormatVersionTest, ARefusalSaysWhatToDo) {
  EXPECT_TRUE(CheckFormatVersion("dir", 8, 8, 8).ok());
  EXPECT_TRUE(CheckFormatVersion("dir", 9, 8, 10).ok());
  struct Case {
    uint64_t version, oldest, newest;
    const char* text;
  };
  for (const auto& [version, oldest, newest, text] :
       {Case{7, 8, 8, "made before 1.0, with duetime 0.1; this program knows 8 and later"},
        Case{1, 9, 9, "made before 1.0, with duetime 0.1; this program knows 8 and later"},
        Case{8, 9, 9, "a start of the daemon upgrades it to 9"},
        Case{9, 8, 8, "this program knows up to 8"}}) {
    const absl::Status status = CheckFormatVersion("dir", version, oldest, newest);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << version;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(absl::StrCat("dir has format version ", version)), HasSubstr(text)));
  }
}

std::map<std::string, std::string> TreeOf(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path().string()] =
        entry.is_directory() ? "/" : std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

void SetWitnessVersion(const std::string& data_dir, uint32_t version) {
  auto witness = Witness::Open(data_dir + "/witness");
  WitnessRecord record = (*witness)->Read()->value();
  record.format_version = version;
  ASSERT_TRUE((*witness)->Write(record).ok());
}

RocksDbStoreOptions OptionsOf(const std::string& data_dir, Use use) {
  RocksDbStoreOptions options;
  options.data_dir = data_dir;
  options.shards = 1;
  options.use = use;
  return options;
}

// Makes a directory in which database and witness have this version.
void MakeDirectory(const std::string& data_dir, uint32_t version, Use use) {
  auto database = RocksDbDatabase::Open(OptionsOf(data_dir, use));
  ASSERT_TRUE(database.ok()) << database.status();
  const auto put = [version](KvBatch* batch) {
    batch->Put(ColumnFamily::kMeta, FormatVersionKey().bytes(), EncodeNumber(version));
  };
  ASSERT_TRUE((*database)->Append(put, Durability::kSynced).ok());
  ASSERT_TRUE((*database)->Close().ok());
  SetWitnessVersion(data_dir, version);
}

// A function that reads a data directory. Its second argument is a place for a new one.
struct Reader {
  const char* name;
  Use use;
  absl::Status (*read)(const std::string& data_dir, const std::string& into);
};

void Ignore(absl::string_view) {}

absl::Status Verify(const std::string& data_dir, const std::string&) {
  return VerifyDirectory(data_dir, Ignore);
}

absl::Status Repair(const std::string& data_dir, const std::string& into) {
  bool written = false;
  return RepairDirectory(data_dir, into, 1, nullptr, Ignore, &written);
}

absl::Status Restore(const std::string& data_dir, const std::string& into) {
  return RestoreDirectory(data_dir, into, 1, 2);
}

absl::Status Start(const std::string& data_dir, const std::string&) {
  return RocksDbStore::Open(OptionsOf(data_dir, Use::kAlone)).status();
}

absl::Status StartInCell(const std::string& data_dir, const std::string&) {
  return RocksDbStore::Open(OptionsOf(data_dir, Use::kInCell)).status();
}

// A member fetches the directory from its leader.
absl::Status Fetch(const std::string& data_dir, const std::string& into) {
  std::vector<CheckpointFile> files;
  for (const auto& [path, content] : TreeOf(data_dir)) {
    const std::string name = path.substr(data_dir.size() + 1);
    if (content == "/" || (name != "witness" && !name.starts_with("db/"))) continue;
    files.push_back({.path = name, .bytes = content.size(), .unique_id = ""});
  }
  fs::create_directories(into);
  auto fetched = FetchedDirectory::Begin(into, files);
  if (!fetched.ok()) return fetched.status();
  const auto contents = TreeOf(data_dir);
  for (const CheckpointFile& file : files) {
    const std::string& bytes = contents.at(data_dir + "/" + file.path);
    absl::Status status = fetched->Store(
        file, [&](uint64_t offset) -> absl::StatusOr<std::string> { return bytes.substr(offset); });
    if (!status.ok()) return status;
  }
  return fetched->Publish(OptionsOf(into, Use::kInCell), {});
}

// Each reader of a directory.
const Reader kReaders[] = {
    {"start", Use::kAlone, Start},     {"start in a cell", Use::kInCell, StartInCell},
    {"verify", Use::kAlone, Verify},   {"repair", Use::kAlone, Repair},
    {"restore", Use::kAlone, Restore}, {"fetch", Use::kInCell, Fetch}};

TEST(FormatVersionTest, EachReaderRefusesOtherVersionsAndChangesNothing) {
  for (uint32_t version = 1; version <= kFormatVersion + 1; ++version) {
    if (version == kFormatVersion) continue;
    const std::string why = version < kFormatVersion ? "made before 1.0, with duetime 0.1"
                                                     : absl::StrCat("knows up to ", kFormatVersion);
    for (const Reader& reader : kReaders) {
      SCOPED_TRACE(absl::StrCat(reader.name, " of version ", version));
      const test::TempDirectory directory;
      const std::string data_dir = directory.Join("data");
      MakeDirectory(data_dir, version, reader.use);
      std::ofstream(absl::StrCat(data_dir, "/", kBackupSums)).flush();
      const auto before = TreeOf(data_dir);
      const absl::Status status = reader.read(data_dir, directory.Join("into"));
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      // What a member has fetched is the directory that it opens.
      const std::string refused = reader.read == Fetch ? directory.Join("into") : data_dir;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(refused), HasSubstr(absl::StrCat("format version ", version)),
                        HasSubstr(why)));
      EXPECT_EQ(TreeOf(data_dir), before);
    }
  }
}

// An upgrade by the program before ended between its last write to the database and the witness.
TEST(FormatVersionTest, AnOlderWitnessLeavesTheDecisionToTheDatabase) {
  for (const Reader& reader : kReaders) {
    SCOPED_TRACE(reader.name);
    const test::TempDirectory directory;
    const std::string data_dir = directory.Join("data");
    MakeDirectory(data_dir, kFormatVersion, reader.use);
    SetWitnessVersion(data_dir, kFirstFormatVersion - 1);
    std::ofstream(absl::StrCat(data_dir, "/", kBackupSums)).flush();
    const absl::Status status = reader.read(data_dir, directory.Join("into"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("format version")));
    EXPECT_TRUE(reader.use == Use::kInCell || Start(data_dir, "").ok());
  }
}

// The table with the last write of the version is lost, so that the one before is visible.
TEST(FormatVersionTest, ADatabaseWithAnOlderVersionThanItsWitnessIsDamaged) {
  const test::TempDirectory directory;
  const std::string data_dir = directory.Join("data");
  MakeDirectory(data_dir, kFirstFormatVersion - 1, Use::kAlone);
  SetWitnessVersion(data_dir, kFormatVersion);
  EXPECT_EQ(Verify(data_dir, "").code(), absl::StatusCode::kDataLoss);
  const std::string into = directory.Join("into");
  const absl::Status repaired = Repair(data_dir, into);
  EXPECT_TRUE(repaired.ok()) << repaired;
  EXPECT_TRUE(Verify(into, "").ok());
  EXPECT_TRUE(Start(into, "").ok());
  // A newer program wrote the database, and not yet the witness.
  const std::string newer = directory.Join("newer");
  MakeDirectory(newer, kFormatVersion + 1, Use::kAlone);
  SetWitnessVersion(newer, kFormatVersion);
  for (const auto& read : {Verify, Repair, Start}) {
    EXPECT_EQ(read(newer, directory.Join("other")).code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Then the database's own version counts.
TEST(FormatVersionTest, ARepairWithoutAWitnessRefusesOtherVersions) {
  for (const uint32_t version : {kFirstFormatVersion - 1, kFormatVersion + 1}) {
    const test::TempDirectory directory;
    const std::string data_dir = directory.Join("data");
    MakeDirectory(data_dir, version, Use::kAlone);
    std::ofstream(data_dir + "/witness", std::ios::trunc).flush();
    for (const auto& read : {Verify, Repair}) {
      const absl::Status status = read(data_dir, directory.Join("into"));
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("format version ", version)));
    }
  }
}

}  // namespace
}  // namespace duetime::storage
