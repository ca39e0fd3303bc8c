// SPDX-License-Identifier: Apache-2.0
//
// Makes the n-th write or sync of the log fail, once or from then on, for every n that a run
// reaches. The failed append has an unknown outcome, every later append is refused, and a reopened
// store is consistent.
#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/crash/store_driver.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using storage::RocksDbStore;
using Operation = UnsyncedFileSystem::Operation;

constexpr uint64_t kAppends = 24;

struct Fault {
  Operation operation;
  bool for_good;
};

class StorageFaultTest : public testing::TestWithParam<Fault> {
 protected:
  std::unique_ptr<RocksDbStore> Open(const std::string& data_dir) {
    storage::RocksDbStoreOptions options = SmallStoreOptions(data_dir);
    options.file_system = file_system_;
    options.log = [this](storage::RocksDbStoreOptions::LogLevel, absl::string_view line) {
      if (line.find("fenced") != absl::string_view::npos) fenced_is_logged_ = true;
    };
    auto store = RocksDbStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  const std::shared_ptr<UnsyncedFileSystem> file_system_ = std::make_shared<UnsyncedFileSystem>();
  // Any thread of the store may log.
  std::atomic<bool> fenced_is_logged_{false};
};

// Appends until the store refuses one, then checks that the journal stays fenced. Returns the
// number of accepted appends, which is kAppends if the fault never came.
uint64_t AppendUntilTheFault(RocksDbStore* store, Operation operation) {
  for (uint64_t number = 0; number < kAppends; ++number) {
    const bool sync = operation == Operation::kSync || number % 3 == 0;
    // Some payloads are large, so that RocksDB switches to a new log.
    const size_t bytes = number % 7 == 6 ? 20'000 : 100;
    const AppendOutcome outcome =
        AppendNumbered(store, number, sync ? Durability::kSynced : Durability::kBuffered, bytes);
    if (outcome == AppendOutcome::kAccepted) continue;
    EXPECT_EQ(outcome, AppendOutcome::kUnknown);
    for (const Durability durability : {Durability::kSynced, Durability::kBuffered}) {
      EXPECT_EQ(AppendNumbered(store, 1000, durability), AppendOutcome::kFenced);
    }
    EXPECT_TRUE(store->Stats().fenced);
    return number;
  }
  return kAppends;
}

TEST_P(StorageFaultTest, TheNthFailureFencesAndTheStoreComesUpConsistent) {
  uint64_t faults = 0;
  uint64_t unknown_found = 0;
  for (uint64_t n = 1;; ++n) {
    const TempDirectory directory;
    std::unique_ptr<RocksDbStore> store = Open(directory.path());
    ASSERT_NE(store, nullptr);
    file_system_->FailLog(GetParam().operation, n, GetParam().for_good);
    const uint64_t accepted = AppendUntilTheFault(store.get(), GetParam().operation);
    if (accepted == kAppends) break;
    ++faults;
    EXPECT_TRUE(store->WriteWitness().ok()) << "it claims only what was synced before";
    store.reset();
    file_system_->FailLog(GetParam().operation, 0, false);

    store = Open(directory.path());
    ASSERT_NE(store, nullptr) << "n = " << n;
    const std::vector<uint64_t> numbers = StoredNumbers(store.get());
    const bool unknown_is_there = numbers.size() == accepted + 1;
    unknown_found += unknown_is_there ? 1 : 0;
    EXPECT_EQ(numbers, NumbersUpTo(accepted + (unknown_is_there ? 1 : 0))) << "n = " << n;
    EXPECT_EQ(AppendNumbered(store.get(), kAppends), AppendOutcome::kAccepted);
    ASSERT_TRUE(store->Close().ok());
  }
  EXPECT_GE(faults, kAppends - 2) << "each append writes and syncs at least once";
  EXPECT_TRUE(fenced_is_logged_);
  if (GetParam().operation == Operation::kSync) {
    EXPECT_GT(unknown_found, 0u)
        << "a record whose sync failed may well be there: why it is unknown";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StorageFaultTest,
    testing::Values(Fault{Operation::kAppend, false}, Fault{Operation::kAppend, true},
                    Fault{Operation::kSync, false}, Fault{Operation::kSync, true}),
    [](const auto& test) {
      return std::string(test.param.operation == Operation::kSync ? "Sync" : "Write") +
             (test.param.for_good ? "ForGood" : "Once");
    });

}  // namespace
}  // namespace duetime::test
