// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/contract/message_store_contract.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {
namespace {

using Operation = UnsyncedFileSystem::Operation;

// Makes either the write or the sync of the log fail.
class RocksDbHarness final : public StoreHarness {
 public:
  explicit RocksDbHarness(Operation failing) : failing_(failing) {}

  storage::JournaledStore* Reopen() override {
    store_.reset();
    storage::RocksDbStoreOptions options;
    options.data_dir = directory_.path();
    options.shards_if_new = kShards;
    // Small, because RocksDB reserves the space of a whole log at each open.
    options.write_buffer_bytes = 256 << 10;
    options.file_system = file_system_;
    absl::StatusOr<std::unique_ptr<storage::RocksDbStore>> store =
        storage::RocksDbStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    return store_.get();
  }
  void FailNextAppend() override { file_system_->FailLog(failing_, 1, /*for_good=*/false); }

 private:
  const Operation failing_;
  const TempDirectory directory_;
  const std::shared_ptr<UnsyncedFileSystem> file_system_ = std::make_shared<UnsyncedFileSystem>();
  std::unique_ptr<storage::RocksDbStore> store_;
};

HarnessFactory RocksDbFactory(const std::string& name, Operation failing) {
  return {name, [failing] { return std::make_unique<RocksDbHarness>(failing); }};
}

INSTANTIATE_TEST_SUITE_P(RocksDb, MessageStoreContract,
                         testing::Values(RocksDbFactory("WriteFails", Operation::kAppend),
                                         RocksDbFactory("SyncFails", Operation::kSync)),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
