// SPDX-License-Identifier: Apache-2.0
//
// RangeReader: reads the keys between two bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <rocksdb/db.h>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/key_codec.h"
#include "storage/kv_store.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/table_damage.h"

namespace duetime::storage {

// An iterator over [lower, upper), positioned at the first key. With a `tombstones_max` other than
// 0, the iterator gives up when it meets more tombstones than that in a row. REQUIRES: the bytes of
// both bounds outlive the iterator.
class RangeReader {
 public:
  RangeReader(TableDamage* tables, ColumnFamily family, absl::string_view lower,
              absl::string_view upper, OnDamage on_damage, uint64_t tombstones_max = 0)
      : tables_(tables),
        family_(family),
        on_damage_(on_damage),
        lower_(ToSlice(lower)),
        upper_(ToSlice(upper)),
        tombstones_max_(tombstones_max),
        located_(tables->located()) {
    SeekAnew(lower);
    AfterMove();
  }
  RangeReader(TableDamage* tables, const StoreKey& lower, const StoreKey& upper, OnDamage on_damage,
              uint64_t tombstones_max = 0)
      : RangeReader(tables, lower.family(), lower.bytes(), upper.bytes(), on_damage,
                    tombstones_max) {}

  bool Valid() const { return around_ != nullptr ? around_->Valid() : iterator_->Valid(); }
  void Next() {
    if (around_ != nullptr) {
      around_->Next();
    } else {
      // The key is gone when the iterator meets a damaged block.
      place_.assign(key().data(), key().size());
      place_.push_back('\0');
      iterator_->Next();
    }
    AfterMove();
  }
  void Seek(const StoreKey& key) {
    if (around_ != nullptr || broken()) {
      SeekAnew(key.bytes());
    } else {
      place_.assign(key.bytes().data(), key.bytes().size());
      iterator_->Seek(ToSlice(key.bytes()));
    }
    AfterMove();
  }
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
  // True if the last move failed. It is then also unknown where the later keys are.
  bool broken() const { return !Valid() && !gave_up() && !iterator_->status().ok(); }
  // True if it stopped behind a block that it located, at stop(). The next range must begin there.
  bool stopped() const { return stopped_; }
  const std::string& stop() const { return around_->until(); }
  // True if it met a damaged block so far, and may have left keys out.
  bool went_around() const { return went_around_; }
  absl::string_view key() const {
    return around_ != nullptr ? around_->key() : ToView(iterator_->key());
  }
  absl::string_view value() const {
    return around_ != nullptr ? around_->value() : ToView(iterator_->value());
  }
  // Call when Valid() has become false: returns OK at the end of the range, else the error.
  absl::Status status() const {
    if (around_ != nullptr) return around_->status();
    if (gave_up() || iterator_->status().ok()) return absl::OkStatus();
    return tables_->ErrorOf(family_, iterator_->status(), place_);
  }

 private:
  // Reading the next key costs 0.3 us, a seek 5-10 us. So it pays to step over a few keys between
  // two wanted ones.
  static constexpr size_t kStepsBeforeSeek = 16;

  // Seeks with a new iterator: RocksDB's iterators keep an error beyond the next seek if it goes to
  // a place nearby.
  void SeekAnew(absl::string_view key) {
    around_.reset();
    place_.assign(key.data(), key.size());
    rocksdb::ReadOptions options = MakeScanOptions(&lower_, &upper_, tombstones_max_);
    // After a detour the range goes on with another prefix than it began with.
    options.total_order_seek = on_damage_ != OnDamage::kFail;
    StopPerfCounters();
    iterator_.reset(tables_->db()->NewIterator(options, tables_->handle(family_)));
    iterator_->Seek(ToSlice(place_));
  }

  // Ends a detour that has found its last key, and begins one at a damaged block.
  void AfterMove() {
    if (on_damage_ != OnDamage::kFail && !Valid()) GoAround();
  }
  void GoAround();

  TableDamage* const tables_;
  const ColumnFamily family_;
  const OnDamage on_damage_;
  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  const uint64_t tombstones_max_;
  // The count of located blocks at the beginning.
  const uint64_t located_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  // The last move looked for the first key from here on.
  std::string place_;
  // The way around a damaged block, while the range is in it.
  std::unique_ptr<ReadAround> around_;
  bool went_around_ = false;
  bool stopped_ = false;
};

}  // namespace duetime::storage
