// SPDX-License-Identifier: Apache-2.0
//
// RangeReader: reads the keys between two bounds of a RocksDB database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <rocksdb/db.h>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/kv_store.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/table_damage.h"

namespace duetime::storage {

// The KvReader over RocksDB.
class RangeReader final : public KvReader {
 public:
  // With a `tombstones_max` other than 0, the reader gives up when it meets more tombstones than
  // that in a row. REQUIRES: as KvSource::NewReader.
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

  void Next() override {
    if (around_ != nullptr) {
      around_->Next();
    } else {
      // The key is gone when the iterator meets a damaged block.
      place_.assign(key_.data(), key_.size());
      place_.push_back('\0');
      iterator_->Next();
    }
    AfterMove();
  }
  void Seek(absl::string_view key) override {
    if (around_ != nullptr || broken()) {
      SeekAnew(key);
    } else {
      place_.assign(key.data(), key.size());
      iterator_->Seek(ToSlice(place_));
    }
    AfterMove();
  }
  // Moves to the first key that is not less than `key`. REQUIRES: successive calls have ascending
  // keys.
  void MoveTo(absl::string_view key) {
    for (size_t steps = 0; steps < kStepsBeforeSeek && valid_ && key_ < key; ++steps) Next();
    if (gave_up() || (valid_ && key_ < key)) Seek(key);
  }
  // True if the last move met too many tombstones, so that the next key is unknown.
  bool gave_up() const { return !AtKey() && iterator_->status().IsIncomplete(); }
  // True if the last move failed. It is then also unknown where the later keys are.
  bool broken() const { return !AtKey() && !gave_up() && !iterator_->status().ok(); }

  absl::Status status() const override {
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
    place_.assign(key.data(), key.size());
    around_.reset();
    rocksdb::ReadOptions options = MakeScanOptions(&lower_, &upper_, tombstones_max_);
    // The reader sees one prefix only if it neither takes a detour nor looks for several keys.
    options.total_order_seek = on_damage_ != OnDamage::kFail || tombstones_max_ != 0;
    StopPerfCounters();
    iterator_.reset(tables_->db()->NewIterator(options, tables_->handle(family_)));
    iterator_->Seek(ToSlice(place_));
  }

  // True if the last move found a key.
  bool AtKey() const { return around_ != nullptr ? around_->Valid() : iterator_->Valid(); }
  // Ends a detour that has found its last key, and begins one at a damaged block. Shows what the
  // move found.
  void AfterMove() {
    if (on_damage_ != OnDamage::kFail && !AtKey()) GoAround();
    valid_ = AtKey();
    if (!valid_) return;
    key_ = around_ != nullptr ? around_->key() : ToView(iterator_->key());
    value_ = around_ != nullptr ? around_->value() : ToView(iterator_->value());
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
};

}  // namespace duetime::storage
