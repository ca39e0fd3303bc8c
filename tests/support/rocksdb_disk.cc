// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rocksdb_disk.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "server/base/check.h"

namespace duetime::test {

using storage::Durability;
using storage::KvBatch;

class RocksDbDisk::Store final : public storage::KvStore {
 public:
  explicit Store(RocksDbDisk* disk) : disk_(disk), opening_(disk->opening_) {}

  absl::Status Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) override {
    if (!open()) return absl::FailedPreconditionError("the store is fenced");
    return disk_->Append(fill, durability);
  }
  void DropExpired(uint64_t until_ms) override {
    if (open()) disk_->database_->DropExpired(until_ms);
  }
  storage::KvSource* source() override {
    DT_CHECK(open());
    return disk_->database_->source();
  }

 private:
  bool open() const { return opening_ == disk_->opening_; }

  RocksDbDisk* const disk_;
  const uint64_t opening_;
};

std::unique_ptr<storage::KvStore> RocksDbDisk::Open() {
  ++opening_;
  if (database_ != nullptr) Sync();
  database_.reset();
  storage::RocksDbStoreOptions options;
  options.data_dir = data_dir();
  options.write_buffer_bytes = 64 << 10;
  options.file_system = file_system_;
  auto database = storage::RocksDbDatabase::Open(options);
  DT_CHECK(database.ok());
  database_ = *std::move(database);
  return std::make_unique<Store>(this);
}

void RocksDbDisk::PowerCut(size_t kept) {
  ++opening_;
  if (database_ == nullptr) return;
  const uint64_t lost = kept < unsynced_.size() ? file_system_->log_bytes() - unsynced_[kept] : 0;
  file_system_->CutPower();
  database_.reset();
  file_system_->LoseEndOfLog(lost);
  unsynced_.clear();
}

void RocksDbDisk::Sync() {
  DT_CHECK(database_ != nullptr);
  // If the database is fenced, it refuses this, but its files have all that it accepted.
  Append([](KvBatch*) {}, Durability::kSynced).IgnoreError();
  unsynced_.clear();
}

void RocksDbDisk::Compact() {
  DT_CHECK(database_ != nullptr);
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (rocksdb::ColumnFamilyHandle* const handle : database_->handles()) {
    DT_CHECK(database_->db()->CompactRange(options, handle, nullptr, nullptr).ok());
  }
}

std::unique_ptr<KvDisk> RocksDbDisk::Copy() {
  DT_CHECK(database_ != nullptr);
  auto copy = std::make_unique<RocksDbDisk>();
  DT_CHECK(database_->WriteCheckpoint(copy->data_dir()).ok());
  ForgetDurable();
  return copy;
}

absl::Status RocksDbDisk::Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) {
  const uint64_t bytes_before = file_system_->log_bytes();
  absl::Status status = database_->Append(fill, durability);
  unsynced_.push_back(bytes_before);
  ForgetDurable();
  return status;
}

void RocksDbDisk::ForgetDurable() {
  const uint64_t durable = file_system_->log_bytes() - file_system_->unsynced_log_bytes();
  std::erase_if(unsynced_, [durable](uint64_t before) { return before < durable; });
}

}  // namespace duetime::test
