// SPDX-License-Identifier: Apache-2.0
//
// Internals of RocksDbStore: the write of a group, and iteration over keys.
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
#include "storage/key_codec.h"
#include "storage/rocksdb_database.h"
#include "storage/rocksdb_options.h"
#include "storage/rocksdb_slice.h"
#include "storage/rocksdb_status.h"
#include "storage/rocksdb_store.h"

namespace duetime::storage {

inline absl::Status Undecodable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the store holds ", what, " that cannot be decoded"));
}

// Thread safety: Write is confined to the committer; all else is thread-safe.
class RocksDbStore::Impl {
 public:
  explicit Impl(std::unique_ptr<RocksDbDatabase> database) : database_(std::move(database)) {}

  RocksDbDatabase* database() const { return database_.get(); }

  // Applies a group in one write.
  rocksdb::Status Write(std::span<const RecordBatch> group, bool sync);

  // An iterator over the keys between two bounds.
  class Range;

  // Reads the value of a key; nullopt if the key is absent.
  absl::StatusOr<std::optional<std::string>> GetOne(ColumnFamily family,
                                                    absl::string_view key) const {
    std::string value;
    const rocksdb::Status status =
        database_->db()->Get(MakeGetOptions(), database_->handle(family), ToSlice(key), &value);
    if (status.IsNotFound()) return std::optional<std::string>();
    if (!status.ok()) return FromRocksDb(status, "read");
    return std::optional<std::string>(std::move(value));
  }
  absl::StatusOr<std::optional<std::string>> GetOne(const StoreKey& key) const {
    return GetOne(key.family(), key.bytes());
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

  // Confined to the committer. Reused by each append.
  std::vector<Entry> entries_;
  CountGroup counts_;
  std::string long_key_;
  rocksdb::WriteBatch batch_;
};

// An iterator over [lower, upper), positioned at the first key. With a `tombstones_max` other than
// 0, the iterator gives up when it meets more tombstones than that in a row. REQUIRES: the bytes of
// both bounds outlive the iterator.
class RocksDbStore::Impl::Range {
 public:
  Range(const RocksDbDatabase& database, ColumnFamily family, absl::string_view lower,
        absl::string_view upper, uint64_t tombstones_max = 0)
      : lower_(ToSlice(lower)),
        upper_(ToSlice(upper)),
        iterator_(database.db()->NewIterator(MakeScanOptions(&lower_, &upper_, tombstones_max),
                                             database.handle(family))) {
    iterator_->SeekToFirst();
  }
  Range(const RocksDbDatabase& database, const StoreKey& lower, const StoreKey& upper,
        uint64_t tombstones_max = 0)
      : Range(database, lower.family(), lower.bytes(), upper.bytes(), tombstones_max) {}

  bool Valid() const { return iterator_->Valid(); }
  void Next() { iterator_->Next(); }
  void Seek(const StoreKey& key) { iterator_->Seek(ToSlice(key.bytes())); }
  // Moves to the first key that is not less than `key`. REQUIRES: successive calls have ascending
  // keys.
  void MoveTo(const StoreKey& key) {
    for (size_t steps = 0; steps < kStepsBeforeSeek && Valid() && this->key() < key.bytes();
         ++steps) {
      Next();
    }
    if (gave_up() || (Valid() && this->key() < key.bytes())) Seek(key);
  }
  // True if the last move met too many tombstones, so that the next key is unknown.
  bool gave_up() const { return !Valid() && iterator_->status().IsIncomplete(); }
  absl::string_view key() const { return ToView(iterator_->key()); }
  absl::string_view value() const { return ToView(iterator_->value()); }
  // Call when Valid() has become false: returns OK at the end of the range, else the error.
  absl::Status status() const {
    return gave_up() ? absl::OkStatus() : FromRocksDb(iterator_->status(), "scan");
  }

 private:
  // Reading the next key costs 0.3 us, a seek 5-10 us. So it pays to step over a few keys between
  // two wanted ones.
  static constexpr size_t kStepsBeforeSeek = 16;

  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  const std::unique_ptr<rocksdb::Iterator> iterator_;
};

}  // namespace duetime::storage
