// SPDX-License-Identifier: Apache-2.0
//
// Internals of RocksDbStore: the write of a group, and point reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "storage/count_group.h"
#include "storage/damage.h"
#include "storage/key_codec.h"
#include "storage/rocksdb/range_reader.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime::storage {

inline absl::Status Undecodable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the store holds ", what, " that cannot be decoded"));
}

// Thread safety: Write is confined to the committer; all else is thread-safe.
class RocksDbStore::Impl {
 public:
  explicit Impl(std::unique_ptr<RocksDbDatabase> database)
      : database_(std::move(database)),
        damage_(database_->db(), &database_->handles(), database_->log(),
                database_->damaged_blocks_max()) {
    // RocksDB has written the recovered records to tables and synced them.
    applied_offset.store(database_->log_place().offset);
  }

  // LogPlace::offset of the last group that was applied.
  std::atomic<uint64_t> applied_offset{0};

  RocksDbDatabase* database() const { return database_.get(); }
  TableDamage* damage() { return &damage_; }

  // Reads every record of the family `meta`. An error names the damaged file.
  absl::Status CheckMeta();
  // See BackgroundErrors.
  void StopDamagedCompactions() { damage_.StopCompactions(database_->background_errors()); }

  // Applies a group in one write, which also stores `place` unless null.
  rocksdb::Status Write(std::span<const RecordBatch> group, bool sync, const LogPlace* place);

  // Reads the value of a key; nullopt if the key is absent. A DamageError if it lies in a damaged
  // block.
  absl::StatusOr<std::optional<std::string>> GetOne(ColumnFamily family, absl::string_view key) {
    std::string value;
    StopPerfCounters();
    const rocksdb::Status status =
        database_->db()->Get(MakeGetOptions(), database_->handle(family), ToSlice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return damage_.ErrorOf(family, status, key);
    return std::optional<std::string>(std::move(value));
  }
  absl::StatusOr<std::optional<std::string>> GetOne(const StoreKey& key) {
    return GetOne(key.family(), key.bytes());
  }
  // Appends the value of a key to `values`: nullopt if the key is absent, and an empty string,
  // which no record is, if it lies in a damaged block.
  absl::Status GetAny(const StoreKey& key, std::vector<std::optional<std::string>>* values) {
    auto value = GetOne(key);
    if (!value.ok() && !IsDamage(value.status())) return value.status();
    values->push_back(value.ok() ? *std::move(value) : std::string());
    return absl::OkStatus();
  }

 private:
  // A record with its key, for sorting.
  struct Entry {
    StoreKey key;
    const Record* record;
  };

  static StoreKey KeyOf(const Record& record);

  void Add(const Entry& entry);
  // The full key of an entry whose key does not fit a StoreKey.
  absl::string_view LongKey(const Entry& entry);

  const std::unique_ptr<RocksDbDatabase> database_;
  TableDamage damage_;

  // Confined to the committer. Reused by each append.
  std::vector<Entry> entries_;
  CountGroup counts_;
  std::string long_key_;
  rocksdb::WriteBatch batch_;
};

}  // namespace duetime::storage
