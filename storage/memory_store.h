// SPDX-License-Identifier: Apache-2.0
//
// MemoryStore: the executable specification of MessageStore, and the store of the tests and the
// simulation.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/message_store.h"

namespace duetime::storage {

// The disk under a MemoryStore: what survives when the store is destroyed and another one is opened
// over it.
//
// Keeps two images, the one that readers see and the one on stable storage, and the appends that
// lie between them.
//
// Guarantees: (1) a synced append, and every append before it, survives PowerCut(); (2) what
// PowerCut() takes is a suffix of the appends, each of them whole. Cost: twice the memory of what
// is stored; PowerCut() copies an image. Thread-safe.
class MemoryDisk {
 public:
  // The shard count is fixed, as it is for a data directory. REQUIRES: 1 <= shard_count <=
  // MessageId::kSlotCount.
  explicit MemoryDisk(uint16_t shard_count) : shard_count_(shard_count) {}
  MemoryDisk(const MemoryDisk&) = delete;
  MemoryDisk& operator=(const MemoryDisk&) = delete;

  // The power fails: of the appends that are not on stable storage only the first `kept` survive
  // (all, if there are fewer). The store that was open is fenced; open another one. A crash of the
  // process alone is a PowerCut that keeps everything.
  void PowerCut(size_t kept);

  // How many appends a power cut may take now.
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
    std::map<std::pair<uint16_t, MessageId>, std::string> traces;
    std::map<CountPlace, CountDelta> counts;
    std::map<ObjectPlace, std::string> objects;

    void Apply(const Record& record);
    void Apply(const std::vector<RecordBatch>& group);
    void Count(const Record& record);
    void DropExpired(uint64_t until_ms);
  };

  // Makes every append durable, which is what opening does, and returns the new epoch.
  uint64_t Open();
  void SyncLocked();

  const uint16_t shard_count_;

  mutable std::mutex mutex_;
  // All below is guarded by mutex_.
  uint64_t epoch_ = 0;
  // What reads see.
  Image visible_;
  // What is on stable storage; with the unsynced appends applied in order, what the next Open()
  // finds.
  Image durable_;
  std::vector<std::vector<RecordBatch>> unsynced_;
};

// A MessageStore over a MemoryDisk. At most one per disk is of use: opening another one, or a power
// cut, fences the older.
//
// Deterministic: std::map order, no clock, no randomness. Faults happen only when scripted.
// Thread-safe, as MessageStore asks; the script functions too.
class MemoryStore : public MessageStore {
 public:
  // How a scripted append ends.
  enum class Fault : uint8_t {
    // kUnknown, and the records are found after the next open.
    kUnknownApplied,
    // kUnknown, and they are not.
    kUnknownLost,
    // kFenced, as if somebody else had taken over.
    kFenced,
  };

  // Opens the disk, which bumps and syncs its epoch. REQUIRES: `disk` outlives the store.
  explicit MemoryStore(MemoryDisk* disk) : disk_(disk), epoch_(disk->Open()) {}

  // Ends the next Append this way instead of doing it; the store is fenced from then on.
  void FailNextAppend(Fault fault);

  // Every read from now on answers with `status`; OkStatus() ends it.
  void FailReads(absl::Status status);

  // Appends that were accepted, since the store was opened.
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
  absl::StatusOr<std::vector<SubscriptionId>> BacklogSubscriptions(uint16_t shard) override;
  absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                         SubscriptionId subscription) override;
  absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                       const MessageKey& key) override;
  absl::Status ScanHeads(uint16_t shard, TopicId topic, const MessageKey& from,
                         const MessageKey& until, const ScanLimit& limit, size_t scan_max,
                         Page<MessageHeadRef>* page) override;
  absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                                     absl::string_view name) override;
  absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind, absl::string_view prefix,
                         absl::string_view after, size_t limit,
                         std::vector<IndexRef>* entries) override;
  absl::StatusOr<std::optional<Trace>> GetTrace(uint16_t shard, const MessageId& id) override;
  absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level, uint64_t from_ms,
                          uint64_t until_ms, size_t limit,
                          std::vector<BucketCount>* counts) override;
  absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                       absl::string_view name) override;
  absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after, size_t limit,
                           std::vector<ObjectRef>* objects) override;
  // Drops at once, so that whoever relies on an entry beyond its time is found out. Cost: looks at
  // every entry.
  void DropExpired(uint64_t until_ms) override;
  absl::StatusOr<ShardMarks> Marks(uint16_t shard) override;
  absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() override;

 private:
  MemoryDisk* const disk_;
  const uint64_t epoch_;

  // Guarded by disk_->mutex_.
  std::optional<Fault> next_fault_;
  bool fenced_ = false;
  absl::Status read_status_;
  uint64_t accepted_appends_ = 0;
};

}  // namespace duetime::storage
