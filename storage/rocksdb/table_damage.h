// SPDX-License-Identifier: Apache-2.0
//
// Finds out which keys a damaged block of a table holds, and reads around it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "storage/damage.h"
#include "storage/key_codec.h"
#include "storage/rocksdb/open_options.h"

namespace duetime::storage {

// A place in a table file.
struct TablePlace {
  // The name without its directory, such as 000012.sst.
  std::string file;
  uint64_t number = 0;
  uint64_t offset = 0;

  friend bool operator==(const TablePlace&, const TablePlace&) = default;
};

// The place that RocksDB names in the text of an error; nullopt if it names none.
std::optional<TablePlace> TablePlaceIn(absl::string_view text);

// What RocksDB's compactions report from their threads.
//
// RocksDB fences a database for good when a compaction meets a damaged block, although the block
// concerns neither the log nor the memtables. This listener lets the database go on after such an
// error. It fences the journal after any other error of a flush or a compaction, and stops RocksDB
// from resuming by itself.
//
// RocksDB would repeat the failed compaction once a second, for ever. So TableDamage stops the
// compactions of the column family; the listener may not, because RocksDB calls it under way.
//
// Thread-safe.
class BackgroundErrors {
 public:
  // Both are shared with RocksDB, which may briefly outlive a failed Open(). Sets `lasting` before
  // `fenced`, if the error is not one that passes by itself (MayPass).
  BackgroundErrors(std::shared_ptr<std::atomic<bool>> fenced,
                   std::shared_ptr<std::atomic<bool>> lasting)
      : fenced_(std::move(fenced)), lasting_(std::move(lasting)) {}

  // Notes the error and returns true if RocksDB may go on.
  bool Tolerate(bool compaction, const rocksdb::Status& status);
  // Takes the noted errors out.
  std::vector<rocksdb::Status> Take();

 private:
  // Errors of compactions that nobody has taken. RocksDB repeats one a second in each family.
  static constexpr size_t kErrorsMax = 64;

  const std::shared_ptr<std::atomic<bool>> fenced_;
  const std::shared_ptr<std::atomic<bool>> lasting_;
  base::Mutex mutex_;
  std::vector<rocksdb::Status> errors_ ABSL_GUARDED_BY(mutex_);
};

std::shared_ptr<rocksdb::EventListener> NewBackgroundListener(
    std::shared_ptr<BackgroundErrors> errors);

// The damaged blocks of an open database.
//
// A key that lies in a damaged block has an unknown value in all older tables too, because the
// block may hold a newer value or a tombstone. A key that has a value in the memtables or in a
// newer table is sound. RocksDB's point reads follow this rule by themselves. Its iterators stop at
// the block.
//
// Thread-safe.
class TableDamage {
 public:
  using Handles = std::array<rocksdb::ColumnFamilyHandle*, kColumnFamilyCount>;

  // REQUIRES: `db` and `handles` outlive this object.
  TableDamage(rocksdb::DB* db, const Handles* handles, LogSink log,
              size_t blocks_max = DamageList::kBlocksMax);

  // The block in which a read ended with `status` that was to find the first key at or after
  // `from`. Adds it to the list, and logs it once. nullopt if the status names no block of a table.
  // Cost: a few hundred seeks for a block that is not listed, tens of milliseconds. If the list is
  // full, the whole table, without seeks.
  std::optional<DamagedBlock> Find(ColumnFamily family, const rocksdb::Status& status,
                                   absl::string_view from);
  // The first damaged block of a table from a key on; nullopt if there is none. Cost: reads the
  // table as far as the block.
  std::optional<DamagedBlock> FirstIn(ColumnFamily family, uint64_t table, absl::string_view from);
  // As Find, as an error: a DamageError, or the plain error if the status names no block. Damage of
  // the family `meta` is a plain error as well, because its records are needed to go on.
  absl::Status ErrorOf(ColumnFamily family, const rocksdb::Status& status, absl::string_view from);

  // Stops the compactions of the families in which one failed. Cost: reads the table up to the
  // damaged block. So the thread of the appends must not call it.
  void StopCompactions(BackgroundErrors* errors);

  rocksdb::DB* db() const { return db_; }
  rocksdb::ColumnFamilyHandle* handle(ColumnFamily family) const {
    return handles_[static_cast<size_t>(family)];
  }
  const DamageList& list() const { return list_; }
  // How many blocks were located so far, by any thread.
  uint64_t located() const { return located_.load(std::memory_order_relaxed); }

 private:
  void Log(absl::string_view text) const;
  std::optional<DamagedBlock> Locate(ColumnFamily family, const TablePlace& place,
                                     absl::string_view from) const;
  std::optional<DamagedBlock> WholeTable(ColumnFamily family, const TablePlace& place) const;

  rocksdb::DB* const db_;
  const Handles& handles_;
  const LogSink log_;
  DamageList list_;
  std::atomic<uint64_t> located_ = 0;
};

// Reads the keys of [from, until) that a point read can read, although a damaged block lies there.
//
// An iterator without the damaged table finds the keys, and a point read of each one decides. So it
// also finds what was written after the damage. It reads the newest state, not a snapshot.
//
// Confined to one thread.
class ReadAround {
 public:
  // `until` may move back: see until().
  ReadAround(TableDamage* tables, ColumnFamily family, const DamagedBlock& block,
             absl::string_view from, absl::string_view until);

  bool Valid() const { return valid_; }
  void Next();
  absl::string_view key() const { return key_; }
  absl::string_view value() const { return value_; }
  // OK at the end. Otherwise the rest is unknown.
  const absl::Status& status() const { return status_; }
  // Where the reading ended. Earlier than asked if another damaged block ends earlier: a table may
  // be left out only as far as its block reaches.
  const std::string& until() const { return until_; }

 private:
  void LeaveOut(const DamagedBlock& block);
  void Seek(absl::string_view from);
  // Stops at the first readable key from the iterator's position on.
  void FindReadable();
  // True if the iterator's key is readable.
  bool Read();

  TableDamage* const tables_;
  const ColumnFamily family_;
  std::set<uint64_t> left_out_;
  std::string until_;
  rocksdb::Slice bound_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
  bool valid_ = false;
  std::string key_;
  std::string value_;
  absl::Status status_;
};

}  // namespace duetime::storage
