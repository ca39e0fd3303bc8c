// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/faulty_store.h"

#include <algorithm>
#include <optional>

#include "storage/locator.h"

namespace duetime::simulation {

using storage::Durability;
using storage::IndexKind;
using storage::MessageId;
using storage::ObjectKind;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;

storage::AppendOutcome FaultyStore::Append(std::span<const RecordBatch> group,
                                           Durability durability) {
  if (fault_ == PlantedFault::kUnsyncedAppends) durability = Durability::kBuffered;
  std::vector<RecordBatch> batches;
  std::vector<MessageId> ended;
  for (const RecordBatch& records : group) {
    std::set<MessageId> put;
    for (const Record& record : records) {
      if (record.type == RecordType::kAccept) put.insert(record.key.id);
    }
    RecordBatch& batch = batches.emplace_back();
    for (const Record& record : records) {
      const bool moves = put.contains(record.key.id);
      if (record.type == RecordType::kErase && !moves) ended.push_back(record.key.id);
      if (Loses(record, moves)) continue;
      batch.push_back(record);
      if (fault_ == PlantedFault::kLoseRetryTimes) batch.back().progress.retry_ms = 0;
      if (fault_ == PlantedFault::kLoseAttempts) batch.back().progress.attempts = 0;
      if (fault_ == PlantedFault::kMiscount) ++batch.back().bytes;
    }
  }
  if (fault_ == PlantedFault::kReverseGroups) std::reverse(batches.begin(), batches.end());
  const size_t unsynced_before = disk_->unsynced_appends();
  const storage::AppendOutcome outcome = TestStore::Append(batches, durability);
  erased_.insert(erased_.end(), ended.begin(), ended.end());
  unsynced_ends_.push_back(std::move(ended));
  // An append that failed is the last one. RocksDB syncs older appends when it switches its log.
  size_t unsynced = disk_->unsynced_appends();
  if (outcome != storage::AppendOutcome::kAccepted && unsynced == unsynced_before) ++unsynced;
  if (unsynced_ends_.size() > unsynced) {
    unsynced_ends_.erase(unsynced_ends_.begin(),
                         unsynced_ends_.end() - static_cast<int64_t>(unsynced));
  }
  return outcome;
}

bool FaultyStore::Loses(const Record& record, bool moves) {
  const auto is_index = [&record](IndexKind kind) {
    return record.type == RecordType::kIndex && record.kind == static_cast<uint8_t>(kind);
  };
  const auto is_object = [&record](ObjectKind kind) {
    return record.type == RecordType::kObject && record.kind == static_cast<uint8_t>(kind);
  };
  const auto has_end = [&record] { return storage::ExpireTimeOf(record.value).value_or(0) != 0; };
  switch (fault_) {
    case PlantedFault::kLoseLocators:
      return record.type == RecordType::kLocator;
    case PlantedFault::kLoseMoves:
      return record.type == RecordType::kLocator && !has_end();
    case PlantedFault::kLoseTombstones:
      return record.type == RecordType::kLocator && has_end();
    case PlantedFault::kLoseKeyChanges:
      return is_index(IndexKind::kUserKey) && !names_.insert(record.name).second;
    case PlantedFault::kLoseKeyEnds:
      return is_index(IndexKind::kUserKey) && has_end();
    case PlantedFault::kLoseRequestIds:
      return is_index(IndexKind::kRequest);
    case PlantedFault::kLoseOccurrences:
      return is_object(ObjectKind::kRecurrence) && !names_.insert(record.name).second;
    case PlantedFault::kKeepOldPlace:
      return record.type == RecordType::kErase && moves;
    case PlantedFault::kLoseProgress:
      return record.type == RecordType::kProgress;
    case PlantedFault::kLoseDeadLetters:
      return record.type == RecordType::kAccept && record.topic == kDeadLetters;
    case PlantedFault::kLoseTopics:
      return is_object(ObjectKind::kTopicSettings);
    case PlantedFault::kLoseSubscriptions:
      return is_object(ObjectKind::kSubscription);
    default:
      return false;
  }
}

absl::StatusOr<storage::ShardMarks> FaultyStore::Marks(uint16_t shard) {
  auto marks = TestStore::Marks(shard);
  if (!marks.ok()) return marks;
  if (fault_ == PlantedFault::kForgetClaim) marks->claim_ms = 0;
  if (fault_ == PlantedFault::kLowWatermarkTooFar && marks->low_watermark_ms > 0)
    marks->low_watermark_ms += 2000;
  return marks;
}

absl::Status FaultyStore::Scan(uint16_t shard, const storage::MessageKey& from,
                               const storage::MessageKey& until, const storage::ScanLimit& limit,
                               storage::Page<storage::MessageRef>* page) {
  absl::Status status = TestStore::Scan(shard, from, until, limit, page);
  const bool stops = fault_ == PlantedFault::kStopAtDamage;
  if (!status.ok() || !page->damaged || (!stops && fault_ != PlantedFault::kHideDamage)) {
    return status;
  }
  page->damaged = false;
  if (!stops) return status;
  size_t before = 0;
  for (storage::Page<storage::MessageRef> sound; before < page->items.size(); ++before) {
    status = TestStore::Scan(shard, from, page->items[before].key, limit, &sound);
    if (!status.ok() || sound.damaged) break;
  }
  page->items.resize(before);
  page->next.reset();
  return status;
}

absl::StatusOr<std::optional<storage::MessageKey>> FaultyStore::BacklogClaim(
    uint16_t shard, storage::SubscriptionId subscription) {
  if (fault_ == PlantedFault::kForgetBacklogClaim) return std::nullopt;
  return TestStore::BacklogClaim(shard, subscription);
}

absl::StatusOr<std::vector<storage::ProgressRef>> FaultyStore::GetProgress(
    uint16_t shard, const storage::MessageKey& key) {
  if (fault_ == PlantedFault::kForgetProgress) return std::vector<storage::ProgressRef>();
  return TestStore::GetProgress(shard, key);
}

std::vector<MessageId> FaultyStore::EndsBeyond(size_t kept) const {
  std::vector<MessageId> ids;
  for (size_t i = kept; i < unsynced_ends_.size(); ++i) {
    ids.insert(ids.end(), unsynced_ends_[i].begin(), unsynced_ends_[i].end());
  }
  return ids;
}

}  // namespace duetime::simulation
