// SPDX-License-Identifier: Apache-2.0
//
// RecordStore: messages, backlogs, names, locators, counters and objects as keys of a KvStore, and
// the journal that changes them. FORMAT.md documents the keys and values.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/damage.h"
#include "storage/kv_store.h"
#include "storage/log_place.h"
#include "storage/message_store.h"
#include "storage/record_writer.h"

namespace duetime::storage {

// What the opening of a store found.
struct StoreState {
  // See MessageStore. Without meaning in a cell, except for shard_count.
  uint64_t epoch = 0;
  uint64_t first_sequence = 1;
  uint16_t shard_count = 1;
  // Set if the store is that of a cell's member: how far it has applied the log.
  std::optional<LogPlace> log_place = std::nullopt;
};

// Guarantees: those of MessageStore and Journal, as far as the KvStore keeps its own.
//
// Cost: an append copies each record once and sorts the group. Memory: one group.
//
// Thread safety: as MessageStore.
class RecordStore : public JournaledStore {
 public:
  RecordStore(std::unique_ptr<KvStore> kv, const StoreState& state);

  // REQUIRES: the store belongs to a single server (not in_cell()).
  AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) override;

  // Applies a group of a cell's log, and moves to `place`, together or not at all. Not synced:
  // after a power cut the store is at an earlier place. A failed write fences the store. REQUIRES:
  // in_cell(); one caller at a time.
  absl::Status ApplyLogged(std::span<const RecordBatch> group, const LogPlace& place);
  // The place of the last ApplyLogged. REQUIRES: in_cell(); the caller is that of ApplyLogged.
  LogPlace log_place() const { return log_place_; }
  // True if the store is that of a cell's member.
  bool in_cell() const { return in_cell_; }
  // Makes the store that of a cell's member, at `place`, from the next opening on. Synced.
  // REQUIRES: not in_cell(); only Close follows.
  absl::Status EnterCell(const LogPlace& place);
  // LogPlace::offset of the last group that was applied. Any thread.
  uint64_t applied_offset() const { return applied_offset_.load(std::memory_order_acquire); }

  // In a cell, the last epoch of the log, and 1: no two leaders have the same epoch.
  uint64_t epoch() const override { return epoch_.load(); }
  uint64_t first_sequence() const override { return first_sequence_; }
  uint16_t shard_count() const override { return shard_count_; }
  absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                    const ScanLimit& limit, Page<MessageRef>* page) override;
  absl::StatusOr<std::optional<std::string>> Get(uint16_t shard, const MessageKey& key) override;
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
  absl::StatusOr<std::optional<Progress>> GetProgressOf(uint16_t shard, const MessageKey& key,
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
  absl::Status ReadDone(uint16_t shard, SubscriptionId subscription, const MsRange& times,
                        size_t limit, std::vector<BucketCount>* counts) override;
  absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                       absl::string_view name) override;
  absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after, size_t limit,
                           std::vector<ObjectRef>* objects) override;
  void DropExpired(uint64_t until_ms) override;
  absl::StatusOr<ShardMarks> Marks(uint16_t shard) override;
  absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() override;
  DamageReport Damage() const override;
  uint64_t BacklogDamage() const override;
  bool BacklogHidden() const override;

 private:
  absl::Status Write(std::span<const RecordBatch> group, const LogPlace* place,
                     Durability durability);

  absl::StatusOr<std::optional<std::string>> GetOne(const StoreKey& key) {
    return source_->Get(key.family(), key.bytes());
  }
  // REQUIRES: both keys outlive the reader.
  std::unique_ptr<KvReader> Range(const StoreKey& lower, const StoreKey& upper,
                                  OnDamage on_damage) {
    return source_->NewReader(lower.family(), lower.bytes(), upper.bytes(), on_damage);
  }

  // The parts of ReadCounts and ScanCounts.
  absl::Status ReadTopicCount(uint16_t shard, TopicId topic, std::vector<BucketCount>* counts);
  absl::Status SumDays(uint16_t shard, TopicId topic, std::vector<BucketCount>* counts);
  absl::Status ReadDayCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                             size_t limit, std::vector<BucketCount>* counts);
  absl::Status CountMessages(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                             size_t limit, std::vector<BucketCount>* counts);

  const std::unique_ptr<KvStore> kv_;
  KvSource* const source_;
  const bool in_cell_;
  const uint64_t first_sequence_;
  const uint16_t shard_count_;
  // This field and the next two are confined to the caller of Append and ApplyLogged.
  RecordWriter writer_;
  // Not OK once a read for an append has failed. No later one may be written.
  absl::Status read_status_;
  LogPlace log_place_;
  // Those of log_place_, for all threads. Out of a cell the epoch is constant.
  std::atomic<uint64_t> epoch_;
  std::atomic<uint64_t> applied_offset_;
};

}  // namespace duetime::storage
