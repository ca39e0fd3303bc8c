// SPDX-License-Identifier: Apache-2.0
//
// MapDisk: the storage engine of tests. It keeps a store in ordered maps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "server/base/mutex.h"
#include "storage/kv_store.h"
#include "storage/layout.h"
#include "tests/support/kv_changes.h"
#include "tests/support/kv_disk.h"

namespace duetime::test {

// Keeps what readers see, and for each unsynced append what the append replaced, so that a power
// cut can undo it. A sum is a value with changes above it, which a read adds up, as in RocksDB.
// Deterministic: no clock, no randomness.
//
// Cost: an append to a family copies the whole family if a reader of it is alive, which only
// happens with threads. Thread-safe.
class MapDisk : public KvDisk {
 public:
  MapDisk();
  MapDisk(const MapDisk&) = delete;
  MapDisk& operator=(const MapDisk&) = delete;

  std::unique_ptr<storage::KvStore> Open() override;
  void PowerCut(size_t kept) override { PowerCut(kept, /*torn=*/false); }
  // With `torn`, the first half of the next append's changes survives as well, which no store may
  // do: a test plants this fault.
  void PowerCut(size_t kept, bool torn);
  void Sync() override;
  size_t unsynced_appends() const override;
  void Compact() override {}
  std::unique_ptr<KvDisk> Copy() override;

 private:
  class Store;
  class Source;
  class Reader;

  struct Value {
    // Empty if the value is a sum that began with a change.
    std::optional<std::string> base;
    // The changes of a sum since then. At most kChangesMax.
    std::vector<std::string> changes;
  };
  using Family = std::map<std::string, Value, std::less<>>;
  // How to undo one change.
  struct Undo {
    storage::ColumnFamily family{};
    std::string key;
    std::optional<Value> before;
  };

  static constexpr size_t kChangesMax = 8;

  static std::string Read(absl::string_view key, const Value& value);

  // The family, which is copied first if a reader has it.
  Family& Writable(storage::ColumnFamily family) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds to `undo` how to undo the change, unless it is nullptr.
  void Apply(const KvChange& change, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Undoes all but the first `kept` changes of an append.
  void TakeBack(const std::vector<Undo>& append, size_t kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable base::Mutex mutex_;
  // Counts openings and power cuts. A store of an earlier one is fenced.
  uint64_t opening_ ABSL_GUARDED_BY(mutex_) = 0;
  // What readers see. A reader shares its family.
  std::array<std::shared_ptr<Family>, storage::kColumnFamilyCount> families_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<Undo>> unsynced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::test
