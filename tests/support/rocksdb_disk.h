// SPDX-License-Identifier: Apache-2.0
//
// RocksDbDisk: the daemon's storage engine under the simulation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/rocksdb/rocksdb_database.h"
#include "tests/support/kv_disk.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {

// A data directory in a temporary folder. Flushes and compacts early and often. What a power cut
// undoes is cut off the log; all that RocksDB's own threads wrote by then stays.
//
// Cost: opening takes milliseconds. Not thread-safe, except for the stores.
class RocksDbDisk final : public KvDisk {
 public:
  RocksDbDisk() = default;

  std::unique_ptr<storage::KvStore> Open() override;
  void PowerCut(size_t kept) override;
  void Sync() override;
  size_t unsynced_appends() const override { return unsynced_.size(); }
  // REQUIRES for both: a store is open.
  void Compact() override;
  std::unique_ptr<KvDisk> Copy() override;

 private:
  class Store;

  std::string data_dir() const { return directory_.Join("data"); }
  absl::Status Append(absl::FunctionRef<void(storage::KvBatch*)> fill,
                      storage::Durability durability);

  // A sync, and a switch to a new log, make what came before durable.
  void ForgetDurable();

  const TempDirectory directory_;
  const std::shared_ptr<UnsyncedFileSystem> file_system_ = std::make_shared<UnsyncedFileSystem>();
  // Counts openings and power cuts. A store of an earlier one is fenced.
  uint64_t opening_ = 0;
  // For each unsynced append, the bytes of the logs before it.
  std::vector<uint64_t> unsynced_;
  std::unique_ptr<storage::RocksDbDatabase> database_;
};

}  // namespace duetime::test
