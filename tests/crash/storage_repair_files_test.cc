// SPDX-License-Identifier: Apache-2.0
//
// Removes, cuts and damages the logs, the manifest and the witness of a store, and repairs it.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/repair/repair.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/crash/repair_fixture.h"
#include "tests/crash/store_driver.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::RocksDbStore;
using testing::HasSubstr;

// Several tables and a log with records, as a kill would leave them.
class StorageRepairFilesTest : public RepairTest {
 protected:
  static constexpr uint64_t kMessages = 600;

  static void SetUpTestSuite() {
    original_ = new TempDirectory;
    auto store = RocksDbStore::Open(SmallStoreOptions(original_->path()));
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint64_t number = 0; number < kMessages; ++number) {
      ASSERT_EQ(AppendNumbered(store->get(), number), AppendOutcome::kAccepted);
    }
    ASSERT_TRUE((*store)->WriteWitness().ok());
    // RocksDB writes tables in the background, and closing the store would stop that.
    for (int i = 0; i < 1000 && (FilesLike(original_->path(), ".sst").empty() ||
                                 FilesLike(original_->path(), ".log").size() > 1);
         ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    store->reset();
    ASSERT_FALSE(FilesLike(original_->path(), ".sst").empty());
    ASSERT_GT(fs::file_size(FilesLike(original_->path(), ".log").back()), 5'000u);
  }

  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  void SetUp() override { Copy(original_->path()); }
  fs::path Log() const { return FilesLike(dir(), ".log").back(); }
  fs::path Manifest() const { return FilesLike(dir(), "MANIFEST-").back(); }
  std::vector<uint64_t> Numbers() {
    return store_ == nullptr ? std::vector<uint64_t>() : StoredNumbers(store_.get());
  }

  static TempDirectory* original_;
};

TempDirectory* StorageRepairFilesTest::original_ = nullptr;

TEST_F(StorageRepairFilesTest, ATornEndMayBeALoss) {
  std::ofstream(Log(), std::ios::binary | std::ios::app) << std::string(100, 'x');
  EXPECT_TRUE(absl::IsDataLoss(Repair())) << printed_;
  EXPECT_EQ(Numbers(), NumbersUpTo(kMessages));
  EXPECT_THAT(printed_, HasSubstr("a repair leaves out the last 100 bytes of " + Log().string()));
}

TEST_F(StorageRepairFilesTest, DamageInTheLogLosesOneWrite) {
  FlipBit(Log(), fs::file_size(Log()) / 2);
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  // If the byte is the length in the head of the write, the rest of a block of 32 KiB is lost.
  const std::vector<uint64_t> numbers = Numbers();
  EXPECT_LT(numbers.size(), kMessages);
  EXPECT_GE(numbers.size(), kMessages - 150);
  EXPECT_EQ(numbers.back(), kMessages - 1);
  EXPECT_THAT(printed_, HasSubstr("are missing from the logs"));
}

TEST_F(StorageRepairFilesTest, ALogThatWasDeletedOrCut) {
  for (const bool deleted : {true, false}) {
    SCOPED_TRACE(deleted);
    Copy(original_->path());
    if (deleted) {
      fs::remove(Log());
    } else {
      fs::resize_file(Log(), fs::file_size(Log()) / 2);
    }
    EXPECT_TRUE(absl::IsDataLoss(Repair()));
    const std::vector<uint64_t> numbers = Numbers();
    ASSERT_FALSE(numbers.empty());
    EXPECT_LT(numbers.size(), kMessages);
    EXPECT_EQ(numbers, NumbersUpTo(numbers.size()));
    EXPECT_THAT(printed_, HasSubstr("changes are missing: messages accepted by them are lost"));
  }
}

// The records may be sound, so they are not given up.
TEST_F(StorageRepairFilesTest, AFailedReadIsNoLoss) {
  for (const fs::path& file : {Log(), Manifest()}) {
    SCOPED_TRACE(file);
    Copy(original_->path());
    fs::remove(file);
    fs::create_directory(file);  // open() works, read() fails
    bool written = false;
    const absl::Status status = storage::RepairDirectory(
        dir(), into(), kNowMs, nullptr, [](absl::string_view) {}, &written);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_FALSE(written);
    EXPECT_TRUE(fs::is_empty(into()));
  }
}

TEST_F(StorageRepairFilesTest, NothingIsLostWithTheNameOfTheManifest) {
  const std::string name = Manifest().filename().string();
  for (const std::string& current :
       {std::string(), name + '\0', std::string("MANIFEST-999999\n")}) {
    SCOPED_TRACE(testing::PrintToString(current));
    Copy(original_->path());
    fs::remove(dir() + "/db/CURRENT");
    if (!current.empty()) std::ofstream(dir() + "/db/CURRENT", std::ios::binary) << current;
    EXPECT_TRUE(Repair().ok()) << printed_;
    EXPECT_EQ(Numbers(), NumbersUpTo(kMessages));
  }
}

TEST_F(StorageRepairFilesTest, TheWitnessIsMissing) {
  fs::remove(dir() + "/witness");
  EXPECT_TRUE(absl::IsDataLoss(Repair()));
  EXPECT_EQ(Numbers(), NumbersUpTo(kMessages));
  EXPECT_THAT(printed_, HasSubstr("/witness cannot be read"));
}

// Every table is read, whether or not what is left of the manifest names it.
TEST_F(StorageRepairFilesTest, AManifestThatIsMissingOrCutShort) {
  const uint64_t bytes = fs::file_size(Manifest());
  for (uint64_t twelfths = 0; twelfths < 12; ++twelfths) {
    SCOPED_TRACE(twelfths);
    Copy(original_->path());
    if (twelfths == 0) {
      fs::remove(Manifest());
    } else {
      fs::resize_file(Manifest(), bytes * twelfths / 12);
    }
    const absl::Status status = Repair();
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
    EXPECT_EQ(Numbers(), NumbersUpTo(kMessages)) << printed_;
    if (twelfths == 0) {
      EXPECT_THAT(printed_, HasSubstr("the manifest cannot be read"));
      EXPECT_FALSE(status.ok());
    }
  }
}

}  // namespace
}  // namespace duetime::test
