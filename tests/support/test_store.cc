// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_store.h"

#include <algorithm>
#include <limits>

#include "storage/key_codec.h"

namespace duetime::test {

using storage::ColumnFamily;
using storage::MessageKey;
using storage::StoreKey;
using storage::SubscriptionId;
using storage::TopicId;

void TestDisk::PowerCut(size_t kept) {
  const size_t unsynced = engine_->unsynced_appends();
  if (kept <= unsynced) faults_.DropPending();
  faults_.TakeBack(unsynced - std::min(kept, unsynced));
  engine_->PowerCut(kept);
  // No store gets this epoch.
  const base::MutexLock lock(&mutex_);
  ++epoch_;
}

size_t TestDisk::unsynced_appends() const {
  return engine_->unsynced_appends() + (faults_.pending() ? 1 : 0);
}

std::unique_ptr<TestDisk> TestDisk::Checkpoint() {
  auto copy = std::make_unique<TestDisk>(shard_count_, engine_->Copy());
  faults_.CopyDamageTo(&copy->faults_);
  return copy;
}

void TestDisk::Damage(uint16_t shard, const MessageKey& key) {
  DamageKey(EncodeMessageKey(shard, key));
}

void TestDisk::DamageIndex(uint16_t shard, TopicId topic, storage::IndexKind kind,
                           absl::string_view name) {
  const auto key = storage::NameKey::OfIndex(shard, topic, static_cast<uint8_t>(kind), name);
  engine_->Sync();
  faults_.Damage(key.family(), key.bytes(), key.bytes());
}

void TestDisk::DamageBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place) {
  DamageKey(EncodeBacklogKey(shard, subscription, place));
}

void TestDisk::DamageProgress(uint16_t shard, const MessageKey& key, SubscriptionId subscription) {
  DamageKey(EncodeProgressKey(shard, key, subscription));
}

void TestDisk::DamageCounts(uint16_t shard, TopicId topic) {
  const StoreKey first = storage::CountKey(shard, topic);
  const StoreKey last = storage::DayKey(shard, topic, std::numeric_limits<uint64_t>::max());
  engine_->Sync();
  faults_.Damage(first.family(), first.bytes(), last.bytes());
}

void TestDisk::HideBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& place) {
  const StoreKey key = EncodeBacklogKey(shard, subscription, place);
  engine_->Sync();
  faults_.Hide(key.family(), key.bytes(), key.bytes());
}

void TestDisk::DamageKey(const StoreKey& key) {
  engine_->Sync();
  faults_.Damage(key.family(), key.bytes(), key.bytes());
}

storage::StoreState TestDisk::NextState() {
  const base::MutexLock lock(&mutex_);
  return {.epoch = ++epoch_, .shard_count = shard_count_};
}

storage::AppendOutcome TestStore::Append(std::span<const storage::RecordBatch> group,
                                         storage::Durability durability) {
  const storage::AppendOutcome outcome = storage::RecordStore::Append(group, durability);
  if (outcome == storage::AppendOutcome::kAccepted) ++accepted_appends_;
  return outcome;
}

}  // namespace duetime::test
