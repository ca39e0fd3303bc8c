// SPDX-License-Identifier: Apache-2.0
//
// KvFaults: the faults of a disk, over any storage engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "storage/damage.h"
#include "storage/kv_store.h"
#include "storage/layout.h"
#include "tests/support/kv_changes.h"

namespace duetime::test {

// Damages ranges of keys, and lets appends and reads fail, in the stores that are opened over a
// disk. The damage outlives the stores.
//
// A key in a damaged range is unknown until an append puts or deletes it (KvSource). Two things are
// kinder than in RocksDB: a reader passes a range of one key once the key is written, where
// RocksDB's reader meets the block until a compaction; and only the given keys are damaged.
//
// Thread-safe.
class KvFaults {
 public:
  enum class AppendFault : uint8_t {
    // An error. The next opening finds the changes.
    kUnknownApplied,
    // An error. The next opening does not find the changes.
    kUnknownLost,
    // FAILED_PRECONDITION, as if another process had taken over.
    kFenced,
  };

  // With `find_at_once`, damage is on the list of a store (KvSource::damage) from the moment it
  // exists. Otherwise the first read that meets the damage locates it, as in RocksDB, so that a
  // reader with kGoAroundInSteps stops behind it.
  explicit KvFaults(bool find_at_once = true) : find_at_once_(find_at_once) {}

  // Opens a store over `inner` that has the faults. Appends the changes of an append with
  // kUnknownApplied first. REQUIRES: this object outlives the store; the store that was opened
  // before is not in use.
  std::unique_ptr<storage::KvStore> Open(std::unique_ptr<storage::KvStore> inner);

  // Makes the next append of the open store fail. The store is fenced from then on.
  void FailNextAppend(AppendFault fault);
  // Makes every read of the open store return `status`, until FailReads(OkStatus()).
  void FailReads(const absl::Status& status);
  bool fails_reads() const;

  // Damages the keys from `first` to `last`, both included, whether or not they are stored.
  void Damage(storage::ColumnFamily family, absl::string_view first, absl::string_view last);
  // From now on, readers that go around damage leave out the keys, as they do with a table that has
  // too many damaged blocks. Get and kFail readers find the keys.
  void Hide(storage::ColumnFamily family, absl::string_view first, absl::string_view last);
  // Makes all bytes readable again.
  void Repair();
  // Gives `copy`, which has no damage, the same damage, as a copy of the files has it.
  void CopyDamageTo(KvFaults* copy) const;

  // True if an append with kUnknownApplied waits for the next opening.
  bool pending() const;
  void DropPending();
  // Call when a power cut has undone the last `appends` appends: keys that they wrote are unknown
  // again.
  void TakeBack(size_t appends);

 private:
  class Store;
  class Source;
  class Reader;

  struct Range {
    storage::ColumnFamily family{};
    std::string first;
    std::string last;
    // Made by Hide().
    bool hides = false;
    // A read of the open store has met the range.
    bool located = false;
    // The keys in the range that were put or deleted since, each with the number of the append.
    std::map<std::string, uint64_t, std::less<>> written;
    // What the list shows.
    storage::DamagedBlock block;
  };
  // Where a reader goes.
  struct Move {
    storage::ColumnFamily family{};
    storage::OnDamage on_damage{};
    absl::string_view from;
    // The key where the engine's reader is, or else the end of the range, which does not belong to
    // the move.
    absl::string_view to;
    bool at_key = false;
  };
  // What a reader meets on a move.
  struct Obstacle {
    storage::DamagedBlock block;
    // The key at the end of the move is unknown.
    bool hides_key = false;
  };

  void AddRange(storage::ColumnFamily family, absl::string_view first, absl::string_view last,
                bool hides);
  void Locate(Range* range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first range in the way of a reader.
  std::optional<Obstacle> Meet(const Move& move);
  // The damage that makes a key unknown for a read of one key.
  std::optional<storage::DamagedBlock> Find(storage::ColumnFamily family, absl::string_view key);
  // Notes what an accepted append has written.
  void Accept(const KvChanges& changes);

  absl::Status read_status() const;
  bool damaged() const;
  uint64_t located() const;
  std::optional<AppendFault> TakeAppendFault();
  void Keep(KvChanges pending);

  const bool find_at_once_;

  mutable base::Mutex mutex_;
  std::optional<AppendFault> append_fault_ ABSL_GUARDED_BY(mutex_);
  absl::Status read_status_ ABSL_GUARDED_BY(mutex_);
  std::vector<Range> ranges_ ABSL_GUARDED_BY(mutex_);
  // The list of the open store.
  std::shared_ptr<storage::DamageList> list_ ABSL_GUARDED_BY(mutex_) =
      std::make_shared<storage::DamageList>();
  // How many ranges were ever damaged, and how many were located by a read.
  uint64_t files_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t located_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of accepted appends that a power cut has not undone.
  uint64_t appends_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<KvChanges> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::test
