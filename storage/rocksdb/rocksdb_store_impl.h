// SPDX-License-Identifier: Apache-2.0
//
// Internals of RocksDbStore: the write of a group, and point reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "storage/count_group.h"
#include "storage/key_codec.h"
#include "storage/kv_store.h"
#include "storage/log_place.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime::storage {

inline absl::Status Undecodable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the store holds ", what, " that cannot be decoded"));
}

// Thread safety: Write is confined to the committer; all else is thread-safe.
class RocksDbStore::Impl {
 public:
  explicit Impl(std::unique_ptr<RocksDbDatabase> database)
      : log_place(database->log_place()),
        log_epoch(log_place.epoch),
        // RocksDB has written the recovered records to tables and synced them.
        applied_offset(log_place.offset),
        database_(std::move(database)),
        kv_(database_.get()),
        source_(kv_->source()) {}

  // The place of the last ApplyLogged, for its caller.
  LogPlace log_place;
  // Its epoch and offset, for all threads.
  std::atomic<uint64_t> log_epoch;
  std::atomic<uint64_t> applied_offset;

  RocksDbDatabase* database() const { return database_.get(); }
  KvStore* kv() const { return kv_; }
  KvSource* source() const { return source_; }

  // Applies a group in one append, which also stores `place` unless null.
  absl::Status Write(std::span<const RecordBatch> group, const LogPlace* place,
                     Durability durability);

  absl::StatusOr<std::optional<std::string>> GetOne(const StoreKey& key) {
    return source_->Get(key.family(), key.bytes());
  }
  std::unique_ptr<KvReader> Range(const StoreKey& lower, const StoreKey& upper,
                                  OnDamage on_damage) {
    return source_->NewReader(lower.family(), lower.bytes(), upper.bytes(), on_damage);
  }

 private:
  // A record with its key, for sorting.
  struct Entry {
    StoreKey key;
    const Record* record;
  };

  static StoreKey KeyOf(const Record& record);

  void Add(const Entry& entry, KvBatch* batch);
  // The full key of an entry whose key does not fit a StoreKey.
  absl::string_view LongKey(const Entry& entry);

  const std::unique_ptr<RocksDbDatabase> database_;
  KvStore* const kv_;
  KvSource* const source_;

  // Confined to the committer. Reused by each append.
  std::vector<Entry> entries_;
  CountGroup counts_;
  std::string long_key_;
};

}  // namespace duetime::storage
