// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_database.h"
#include "tests/contract/kv_store_contract.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {
namespace {

using Operation = UnsyncedFileSystem::Operation;

// Makes either the write or the sync of the log fail.
class RocksDbDatabaseHarness final : public KvHarness {
 public:
  explicit RocksDbDatabaseHarness(Operation failing) : failing_(failing) {}

  storage::KvStore* Reopen() override {
    database_.reset();
    storage::RocksDbStoreOptions options;
    options.data_dir = directory_.path();
    // Small, so that the long cases flush and compact.
    options.write_buffer_bytes = 64 << 10;
    options.file_system = file_system_;
    auto database = storage::RocksDbDatabase::Open(options);
    EXPECT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
    return database_.get();
  }
  void CutPower() override {
    file_system_->CutPower();
    database_.reset();
    file_system_->LoseUnsynced(&random_);
  }
  void FailNextAppend() override { file_system_->FailLog(failing_, 1, /*for_good=*/false); }

 private:
  const Operation failing_;
  const TempDirectory directory_;
  const std::shared_ptr<UnsyncedFileSystem> file_system_ = std::make_shared<UnsyncedFileSystem>();
  std::mt19937_64 random_{1};
  std::unique_ptr<storage::RocksDbDatabase> database_;
};

KvHarnessFactory DatabaseFactory(const std::string& name, Operation failing) {
  return {name, [failing] { return std::make_unique<RocksDbDatabaseHarness>(failing); }};
}

INSTANTIATE_TEST_SUITE_P(RocksDbDatabase, KvStoreContract,
                         testing::Values(DatabaseFactory("WriteFails", Operation::kAppend),
                                         DatabaseFactory("SyncFails", Operation::kSync)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
