// SPDX-License-Identifier: Apache-2.0
#include "tests/support/memory_store.h"

#include <algorithm>
#include <limits>

#include "storage/key_codec.h"

namespace duetime::test {

using storage::ColumnFamily;
using storage::MessageKey;
using storage::StoreKey;
using storage::SubscriptionId;
using storage::TopicId;

void MemoryDisk::PowerCut(size_t kept, bool torn) {
  const size_t unsynced = map_.unsynced_appends();
  if (kept <= unsynced) faults_.DropPending();
  faults_.TakeBack(unsynced - std::min(kept, unsynced));
  map_.PowerCut(kept, torn);
  // No store gets this epoch.
  const base::MutexLock lock(&mutex_);
  ++epoch_;
}

size_t MemoryDisk::unsynced_appends() const {
  return map_.unsynced_appends() + (faults_.pending() ? 1 : 0);
}

std::unique_ptr<MemoryDisk> MemoryDisk::Checkpoint() const {
  auto copy = std::make_unique<MemoryDisk>(shard_count_);
  map_.CopyTo(&copy->map_);
  faults_.CopyDamageTo(&copy->faults_);
  return copy;
}

void MemoryDisk::Damage(uint16_t shard, const MessageKey& key) {
  DamageKey(EncodeMessageKey(shard, key));
}

void MemoryDisk::DamageIndex(uint16_t shard, TopicId topic, storage::IndexKind kind,
                             absl::string_view name) {
  const auto key = storage::NameKey::OfIndex(shard, topic, static_cast<uint8_t>(kind), name);
  map_.Sync();
  faults_.Damage(key.family(), key.bytes(), key.bytes());
}

void MemoryDisk::DamageBacklog(uint16_t shard, SubscriptionId subscription,
                               const MessageKey& place) {
  DamageKey(EncodeBacklogKey(shard, subscription, place));
}

void MemoryDisk::DamageProgress(uint16_t shard, const MessageKey& key,
                                SubscriptionId subscription) {
  DamageKey(EncodeProgressKey(shard, key, subscription));
}

void MemoryDisk::DamageCounts(uint16_t shard, TopicId topic) {
  const StoreKey first = storage::CountKey(shard, topic);
  const StoreKey last = storage::DayKey(shard, topic, std::numeric_limits<uint64_t>::max());
  map_.Sync();
  faults_.Damage(first.family(), first.bytes(), last.bytes());
}

void MemoryDisk::HideBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place) {
  const StoreKey key = EncodeBacklogKey(shard, subscription, place);
  map_.Sync();
  faults_.Hide(key.family(), key.bytes(), key.bytes());
}

void MemoryDisk::DamageKey(const StoreKey& key) {
  map_.Sync();
  faults_.Damage(key.family(), key.bytes(), key.bytes());
}

storage::StoreState MemoryDisk::NextState() {
  const base::MutexLock lock(&mutex_);
  return {.epoch = ++epoch_, .shard_count = shard_count_};
}

storage::AppendOutcome MemoryStore::Append(std::span<const storage::RecordBatch> group,
                                           storage::Durability durability) {
  const storage::AppendOutcome outcome = storage::RecordStore::Append(group, durability);
  if (outcome == storage::AppendOutcome::kAccepted) ++accepted_appends_;
  return outcome;
}

}  // namespace duetime::test
