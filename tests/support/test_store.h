// SPDX-License-Identifier: Apache-2.0
//
// TestStore: a store for tests with the daemon's own records, keys and counters. The storage
// engine below it is a map in memory, unless a test gives another one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "storage/record_store.h"
#include "tests/support/kv_disk.h"
#include "tests/support/kv_faults.h"
#include "tests/support/map_disk.h"

namespace duetime::test {

// The disk under a TestStore, with any engine. Its content survives when the store is destroyed
// and another one is opened over it. Guarantees: those of KvDisk. Thread-safe if the engine is.
class TestDisk {
 public:
  // As for a data directory, the shard count is fixed. REQUIRES: 1 <= shard_count <=
  // MessageId::kSlotCount.
  explicit TestDisk(uint16_t shard_count,
                    std::unique_ptr<KvDisk> engine = std::make_unique<MapDisk>())
      : shard_count_(shard_count), engine_(std::move(engine)) {}
  TestDisk(const TestDisk&) = delete;
  TestDisk& operator=(const TestDisk&) = delete;

  // As KvDisk::PowerCut. An append with KvFaults::AppendFault::kUnknownApplied is the last one
  // that may survive.
  void PowerCut(size_t kept);
  // The number of appends that a power cut may remove now.
  size_t unsynced_appends() const;

  // A disk with what readers see now, all of it durable, and with the same damage.
  std::unique_ptr<TestDisk> Checkpoint();

  // Damages the record of a message, as a wrong checksum does: see MessageStore. A later record of
  // the same key is sound. All that was written so far is durable.
  void Damage(uint16_t shard, const storage::MessageKey& key);
  // The same for the index entry of a name.
  void DamageIndex(uint16_t shard, storage::TopicId topic, storage::IndexKind kind,
                   absl::string_view name);
  // The same for a subscription's backlog at a place, whether or not a message is listed there.
  void DamageBacklog(uint16_t shard, storage::SubscriptionId subscription,
                     const storage::MessageKey& place);
  // The same for a subscription's progress with a message.
  void DamageProgress(uint16_t shard, const storage::MessageKey& key,
                      storage::SubscriptionId subscription);
  // The same for all counters of a topic. Lasts as long as the disk, because counters are sums.
  void DamageCounts(uint16_t shard, storage::TopicId topic);
  // From now on, scans leave out a subscription's backlog entry, as they do with tables of too many
  // damaged blocks. A later record of the place is shown.
  void HideBacklog(uint16_t shard, storage::SubscriptionId subscription,
                   const storage::MessageKey& place);
  // As KvDisk::Compact.
  void Compact() { engine_->Compact(); }
  // True after TestStore::FailReads.
  bool fails_reads() const { return faults_.fails_reads(); }
  // Makes all that was damaged or hidden readable again.
  void Repair() { faults_.Repair(); }

 private:
  friend class TestStore;

  void DamageKey(const storage::StoreKey& key);
  std::unique_ptr<storage::KvStore> Open() { return faults_.Open(engine_->Open()); }
  // The state of the next opening.
  storage::StoreState NextState();

  const uint16_t shard_count_;
  const std::unique_ptr<KvDisk> engine_;
  KvFaults faults_;

  mutable base::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A JournaledStore over a TestDisk. Opening another store on the disk, or a power cut, fences the
// older store.
//
// Deterministic: no clock, no randomness. Only a test causes faults. Drops expired entries at once,
// so that tests detect code that relies on an expired entry. Thread-safe, as MessageStore requires;
// so are the calls that cause faults.
class TestStore : public storage::RecordStore {
 public:
  using Fault = KvFaults::AppendFault;

  // Opens the disk, which increments and syncs its epoch. REQUIRES: `disk` outlives the store.
  explicit TestStore(TestDisk* disk)
      : storage::RecordStore(disk->Open(), disk->NextState()), disk_(disk) {}

  // Makes the next Append end with `fault`. The store is fenced from then on.
  void FailNextAppend(Fault fault) { disk_->faults_.FailNextAppend(fault); }
  // Makes every read return `status`, until FailReads(OkStatus()).
  void FailReads(const absl::Status& status) { disk_->faults_.FailReads(status); }
  // The number of accepted appends since the store was opened.
  uint64_t accepted_appends() const { return accepted_appends_.load(); }

  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override;

 private:
  TestDisk* const disk_;
  std::atomic<uint64_t> accepted_appends_ = 0;
};

}  // namespace duetime::test
