// SPDX-License-Identifier: Apache-2.0
//
// MemoryStore: the executable specification of MessageStore, used by tests and the simulation.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "server/base/mutex.h"
#include "storage/message_store.h"

namespace duetime::storage {

// The disk under a MemoryStore. Its content survives when the store is destroyed and another one is
// opened over it.
//
// Keeps two images, the state that readers see and the state on stable storage, and the appends
// between them.
//
// Guarantees: (1) a synced append, and every append before it, survives PowerCut(); (2) PowerCut()
// removes a suffix of the appends, each of them whole. Cost: twice the memory of the stored data;
// PowerCut() copies an image. Thread-safe.
class MemoryDisk {
 public:
  // As for a data directory, the shard count is fixed. REQUIRES: 1 <= shard_count <=
  // MessageId::kSlotCount.
  explicit MemoryDisk(uint16_t shard_count) : shard_count_(shard_count) {}
  MemoryDisk(const MemoryDisk&) = delete;
  MemoryDisk& operator=(const MemoryDisk&) = delete;

  // Simulates a power failure: of the appends that are not on stable storage, only the first `kept`
  // survive (all, if there are fewer). Fences the open store; open another one. A crash of the
  // process alone is a PowerCut that keeps everything.
  void PowerCut(size_t kept);

  // A disk with what readers see now, all of it on stable storage.
  std::unique_ptr<MemoryDisk> Checkpoint() const;

  // Damages the record of a message, as a wrong checksum does: see MessageStore. REQUIRES: the
  // message is stored.
  void Damage(uint16_t shard, const MessageKey& key);
  // The same for the index entry of a name. REQUIRES: the entry is stored.
  void DamageIndex(uint16_t shard, TopicId topic, IndexKind kind, absl::string_view name);
  // The same for a subscription's backlog at a place, whether or not a message is listed there: a
  // block has a range of keys. A later record of the place is sound.
  void DamageBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place);
  // The same for a subscription's progress with a message.
  void DamageProgress(uint16_t shard, const MessageKey& key, SubscriptionId subscription);
  // The same for all counters of a topic. Lasts as long as the disk.
  void DamageCounts(uint16_t shard, TopicId topic);
  // From now on, scans leave out a subscription's backlog entry, as RocksDbStore does with tables
  // of too many damaged blocks. A later record of the place is shown.
  void HideBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place);
  uint64_t damaged_backlog() const;
  bool backlog_hidden() const;
  // Puts the bytes of a damaged message back. Does nothing if none is stored there.
  void Repair(uint16_t shard, const MessageKey& key, std::string record);

  // The number of appends that a power cut may remove now.
  size_t unsynced_appends() const;

 private:
  friend class MemoryStore;

  using MessagePlace = std::pair<uint16_t, MessageKey>;
  using BacklogPlace = std::tuple<uint16_t, SubscriptionId, MessageKey>;
  using ProgressPlace = std::tuple<uint16_t, MessageKey, SubscriptionId>;
  using IndexPlace = std::tuple<uint16_t, TopicId, uint8_t, std::string>;
  using CountPlace = std::tuple<uint16_t, TopicId, CountLevel, uint64_t>;
  using ObjectPlace = std::tuple<uint8_t, uint16_t, std::string>;

  struct Image {
    std::map<MessagePlace, std::string> messages;
    std::map<BacklogPlace, BacklogEntry> backlog;
    std::map<std::pair<uint16_t, SubscriptionId>, MessageKey> backlog_claims;
    std::map<ProgressPlace, Progress> progress;
    std::map<uint16_t, ShardMarks> marks;
    std::map<TopicId, std::string> topics;
    std::map<IndexPlace, std::string> index;
    std::map<std::pair<uint16_t, MessageId>, std::string> locators;
    std::map<CountPlace, CountDelta> counts;
    std::map<ObjectPlace, std::string> objects;
    // Damaged places, which have no entry in the maps. A message or an index entry that is damaged
    // has an empty value.
    std::set<BacklogPlace> damaged_backlog;
    std::set<BacklogPlace> hidden_backlog;
    std::set<ProgressPlace> damaged_progress;
    std::set<std::pair<uint16_t, TopicId>> damaged_counts;

    void Apply(const Record& record);
    // A later record of a damaged place makes it sound.
    void Mend(const Record& record);
    bool ProgressDamaged(uint16_t shard, const MessageKey& key) const;
    void Apply(const std::vector<RecordBatch>& group);
    void Count(const Record& record);
    void DropExpired(uint64_t until_ms);
  };

  // Makes every append durable, as opening does, and returns the new epoch.
  uint64_t Open();
  void SyncLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint16_t shard_count_;

  mutable base::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The state that readers see.
  Image visible_ ABSL_GUARDED_BY(mutex_);
  // The state on stable storage. The next Open() finds it with the unsynced appends applied.
  Image durable_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::vector<RecordBatch>> unsynced_ ABSL_GUARDED_BY(mutex_);
  // The calls of DamageBacklog and HideBacklog.
  uint64_t damaged_backlog_ ABSL_GUARDED_BY(mutex_) = 0;
  bool backlog_hidden_ ABSL_GUARDED_BY(mutex_) = false;
};

// A JournaledStore over a MemoryDisk. Opening another store on the disk, or a power cut, fences the
// older store.
//
// Deterministic: std::map order, no clock, no randomness. Only a script causes faults. Thread-safe,
// as MessageStore requires, script functions included.
class MemoryStore : public JournaledStore {
 public:
  // How a scripted append ends.
  enum class Fault : uint8_t {
    // kUnknown; the next open finds the records.
    kUnknownApplied,
    // kUnknown; the next open does not find them.
    kUnknownLost,
    // kFenced, as if another process had taken over.
    kFenced,
  };

  // Opens the disk, which increments and syncs its epoch. REQUIRES: `disk` outlives the store.
  explicit MemoryStore(MemoryDisk* disk) : disk_(disk), epoch_(disk->Open()) {}

  // Makes the next Append end with `fault`. The store is fenced from then on.
  void FailNextAppend(Fault fault);

  // Makes every read return `status`, until FailReads(OkStatus()).
  void FailReads(absl::Status status);

  // The number of accepted appends since the store was opened.
  uint64_t accepted_appends() const;

  AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) override;
  uint64_t epoch() const override { return epoch_; }
  uint16_t shard_count() const override { return disk_->shard_count_; }
  absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                    const ScanLimit& limit, Page<MessageRef>* page) override;
  absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                        std::vector<std::optional<std::string>>* values) override;
  absl::Status ScanBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& from,
                           const ScanLimit& limit, Page<BacklogRef>* page) override;
  absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard,
                                                         SubscriptionId subscription,
                                                         const MessageKey& key) override;
  absl::StatusOr<BacklogOwners> BacklogSubscriptions(uint16_t shard) override;
  absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                         SubscriptionId subscription) override;
  absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                       const MessageKey& key) override;
  absl::Status ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
                         const ScanLimit& limit, size_t scan_max,
                         Page<MessageHeadRef>* page) override;
  absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                                     absl::string_view name) override;
  absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind, const NameRange& names,
                         size_t limit, std::vector<IndexRef>* entries) override;
  absl::StatusOr<std::optional<Locator>> GetLocator(uint16_t shard, const MessageId& id) override;
  absl::Status ReadCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                          size_t limit, std::vector<BucketCount>* counts) override;
  absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                          size_t limit, std::vector<BucketCount>* counts) override;
  absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                       absl::string_view name) override;
  absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after, size_t limit,
                           std::vector<ObjectRef>* objects) override;
  // Drops expired entries at once, so that tests detect code that relies on an expired entry. Cost:
  // O(entries).
  void DropExpired(uint64_t until_ms) override;
  absl::StatusOr<ShardMarks> Marks(uint16_t shard) override;
  absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() override;
  uint64_t BacklogDamage() const override { return disk_->damaged_backlog(); }
  bool BacklogHidden() const override { return disk_->backlog_hidden(); }

 private:
  MemoryDisk* const disk_;
  const uint64_t epoch_;

  std::optional<Fault> next_fault_ ABSL_GUARDED_BY(disk_->mutex_);
  bool fenced_ ABSL_GUARDED_BY(disk_->mutex_) = false;
  absl::Status read_status_ ABSL_GUARDED_BY(disk_->mutex_);
  uint64_t accepted_appends_ ABSL_GUARDED_BY(disk_->mutex_) = 0;
};

}  // namespace duetime::storage
