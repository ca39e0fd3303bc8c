// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_store.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "storage/message_record.h"
#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/rocksdb_status.h"
#include "storage/rocksdb/rocksdb_store_impl.h"
#include "storage/value_codec.h"

namespace duetime::storage {

StoreKey RocksDbStore::Impl::KeyOf(const Record& record) {
  switch (record.type) {
    case RecordType::kAccept:
    case RecordType::kErase:
      return EncodeMessageKey(record.shard, record.key);
    case RecordType::kClaim:
      return ClaimKey(record.shard);
    case RecordType::kLowWatermark:
      return LowWatermarkKey(record.shard);
    case RecordType::kSpill:
    case RecordType::kUnspill:
      return EncodeBacklogKey(record.shard, record.subscription, record.key);
    case RecordType::kBacklogClaim:
      return BacklogClaimKey(record.shard, record.subscription);
    case RecordType::kProgress:
    case RecordType::kUnprogress:
      return EncodeProgressKey(record.shard, record.key, record.subscription);
    case RecordType::kLocator:
      return EncodeLocatorKey(record.shard, record.key.id);
    case RecordType::kIndex:
      return NameKey::OfIndex(record.shard, record.topic, record.kind, record.name).ToStoreKey();
    case RecordType::kObject:
    case RecordType::kUnobject:
      return NameKey::OfObject(record.kind, record.shard, record.name).ToStoreKey();
    case RecordType::kTopic:
      break;
  }
  return TopicKey(record.topic);
}

absl::Status RocksDbStore::Impl::Write(std::span<const RecordBatch> group, const LogPlace* place,
                                       Durability durability) {
  entries_.clear();
  counts_.Clear();
  for (const RecordBatch& batch : group) {
    for (const Record& record : batch) entries_.push_back({KeyOf(record), &record});
  }
  // A sorted batch costs the memtable a third less time. The sort is stable because records of one
  // key apply in the given order. The order between keys does not matter: readers see the whole
  // batch or nothing.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.key < b.key; });
  return kv_->Append(
      [this, place](KvBatch* batch) {
        for (const Entry& entry : entries_) {
          Add(entry, batch);
          const Record& record = *entry.record;
          if (const CountDelta delta = CountOf(record); delta.messages != 0) {
            counts_.Add(record.shard, record.topic, record.key.due_ms, delta);
          }
        }
        counts_.ForEachChange([batch](const StoreKey& key, absl::string_view change) {
          batch->Merge(key.family(), key.bytes(), change);
        });
        if (place == nullptr) return;
        batch->Put(ColumnFamily::kMeta, LogPlaceKey().bytes(), EncodeLogPlace(*place));
      },
      durability);
}

absl::string_view RocksDbStore::Impl::LongKey(const Entry& entry) {
  const Record& record = *entry.record;
  const NameKey key = entry.key.family() == ColumnFamily::kIndex
                          ? NameKey::OfIndex(record.shard, record.topic, record.kind, record.name)
                          : NameKey::OfObject(record.kind, record.shard, record.name);
  long_key_.assign(key.bytes().data(), key.bytes().size());
  return long_key_;
}

void RocksDbStore::Impl::Add(const Entry& entry, KvBatch* batch) {
  const Record& record = *entry.record;
  const absl::string_view key = entry.key.whole() ? entry.key.bytes() : LongKey(entry);
  const auto put = [&](absl::string_view value) { batch->Put(entry.key.family(), key, value); };
  switch (record.type) {
    case RecordType::kAccept:
    case RecordType::kTopic:
    case RecordType::kIndex:
    case RecordType::kLocator:
    case RecordType::kObject:
      put(record.value);
      break;
    case RecordType::kErase:
    case RecordType::kUnspill:
    case RecordType::kUnobject:
    case RecordType::kUnprogress:
      batch->Delete(entry.key.family(), key);
      break;
    case RecordType::kClaim:
      put(EncodeClaim(record.mark_ms, record.claim_return));
      break;
    case RecordType::kLowWatermark:
      put(EncodeNumber(record.mark_ms));
      break;
    case RecordType::kSpill:
      put(EncodeBacklogEntry(record.backlog));
      break;
    case RecordType::kProgress:
      put(EncodeProgress(record.progress));
      break;
    case RecordType::kBacklogClaim:
      put(EncodePlace(record.key));
      break;
  }
}

absl::StatusOr<std::unique_ptr<RocksDbStore>> RocksDbStore::Open(
    const RocksDbStoreOptions& options) {
  absl::StatusOr<std::unique_ptr<RocksDbDatabase>> database = RocksDbDatabase::Open(options);
  if (!database.ok()) return database.status();
  if (absl::Status status = (*database)->CheckMeta(); !status.ok()) return status;
  return std::unique_ptr<RocksDbStore>(
      new RocksDbStore(std::make_unique<Impl>(*std::move(database))));
}

RocksDbStore::RocksDbStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RocksDbStore::~RocksDbStore() = default;

uint64_t RocksDbStore::epoch() const {
  return in_cell() ? impl_->log_epoch.load() : impl_->database()->epoch();
}
uint64_t RocksDbStore::first_sequence() const { return impl_->database()->first_sequence(); }
uint16_t RocksDbStore::shard_count() const { return impl_->database()->shard_count(); }

LogPlace RocksDbStore::log_place() const { return impl_->log_place; }

absl::Status RocksDbStore::ApplyLogged(std::span<const RecordBatch> group, const LogPlace& place) {
  for (const RecordBatch& batch : group) {
    for (const Record& record : batch) {
      if (record.shard < shard_count() || record.shard == kNoShard) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("a record of the log is of shard ", record.shard, "; this member has ",
                       shard_count(), " shards, and all members need the same number"));
    }
  }
  absl::Status status = impl_->Write(group, &place, Durability::kBuffered);
  if (!status.ok()) return status;
  impl_->log_place = place;
  impl_->log_epoch.store(place.epoch);
  impl_->applied_offset.store(place.offset, std::memory_order_release);
  return status;
}

bool RocksDbStore::in_cell() const { return impl_->database()->in_cell(); }

absl::Status RocksDbStore::EnterCell(const LogPlace& place) {
  DT_CHECK(!in_cell());
  return impl_->Write({}, &place, Durability::kSynced);
}

uint64_t RocksDbStore::applied_offset() const {
  return impl_->applied_offset.load(std::memory_order_acquire);
}

absl::StatusOr<uint64_t> RocksDbStore::SyncApplied() {
  const uint64_t offset = applied_offset();
  RocksDbDatabase* const database = impl_->database();
  const rocksdb::Status synced = database->db()->SyncWAL();
  if (!synced.ok()) return FromRocksDb(database->Fence(synced), "sync the write-ahead log");
  // After a failed sync a later one may succeed, although the pages are lost.
  if (database->fenced()) return absl::FailedPreconditionError("the store is fenced");
  return offset;
}

AppendOutcome RocksDbStore::Append(std::span<const RecordBatch> group, Durability durability) {
  DT_CHECK(!in_cell());
  const absl::Status status = impl_->Write(group, nullptr, durability);
  if (status.ok()) return AppendOutcome::kAccepted;
  return absl::IsFailedPrecondition(status) ? AppendOutcome::kFenced : AppendOutcome::kUnknown;
}

absl::Status RocksDbStore::Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                                const ScanLimit& limit, Page<MessageRef>* page) {
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (from >= until) return absl::OkStatus();
  const StoreKey lower = EncodeMessageKey(shard, from);
  const StoreKey upper = EncodeMessageKey(shard, until);
  size_t bytes = 0;
  const auto range = impl_->Range(lower, upper, OnDamage::kGoAroundInSteps);
  for (; range->Valid(); range->Next()) {
    const std::optional<MessageKey> key = DecodeMessageKey(range->key());
    if (!key.has_value()) return Undecodable("a message key");
    page->damaged = range->went_around();
    if (!page->items.empty() && (page->items.size() >= limit.entries || bytes >= limit.bytes)) {
      page->next = *key;
      return absl::OkStatus();
    }
    const absl::string_view value = range->value();
    MessageHeader header;
    if (absl::Status status = DecodeMessageHeader(value, &header); !status.ok()) return status;
    page->items.push_back({*key, header.topic, static_cast<uint32_t>(value.size()), header.flags});
    bytes += value.size();
  }
  page->damaged = range->went_around();
  if (range->stopped()) page->next = PlaceInMessages(range->stop());
  return range->status();
}

absl::StatusOr<std::optional<std::string>> RocksDbStore::Get(uint16_t shard,
                                                             const MessageKey& key) {
  return impl_->GetOne(EncodeMessageKey(shard, key));
}

absl::Status RocksDbStore::MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                    std::vector<std::optional<std::string>>* values) {
  values->clear();
  values->reserve(keys.size());
  std::vector<StoreKey> wanted;
  wanted.reserve(keys.size());
  for (const MessageKey& key : keys) wanted.push_back(EncodeMessageKey(shard, key));
  return impl_->source()->GetMany(wanted, values);
}

absl::Status RocksDbStore::ScanBacklog(uint16_t shard, SubscriptionId subscription,
                                       const MessageKey& from, const ScanLimit& limit,
                                       Page<BacklogRef>* page) {
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  const StoreKey lower = EncodeBacklogKey(shard, subscription, from);
  const StoreKey upper = BacklogEnd(shard, subscription);
  const auto range = impl_->Range(lower, upper, OnDamage::kGoAroundInSteps);
  for (; range->Valid(); range->Next()) {
    const std::optional<BacklogPlace> place = DecodeBacklogKey(range->key());
    if (!place.has_value()) return Undecodable("a backlog key");
    page->damaged = range->went_around();
    if (!page->items.empty() && page->items.size() >= limit.entries) {
      page->next = place->key;
      return absl::OkStatus();
    }
    const std::optional<BacklogEntry> entry = DecodeBacklogEntry(range->value());
    if (!entry.has_value()) return Undecodable("a backlog entry");
    page->items.push_back({place->key, *entry});
  }
  page->damaged = range->went_around();
  if (range->stopped()) page->next = PlaceInBacklog(range->stop());
  return range->status();
}

absl::StatusOr<std::optional<BacklogEntry>> RocksDbStore::GetBacklog(uint16_t shard,
                                                                     SubscriptionId subscription,
                                                                     const MessageKey& key) {
  const auto value = impl_->GetOne(EncodeBacklogKey(shard, subscription, key));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<BacklogEntry>();
  const std::optional<BacklogEntry> entry = DecodeBacklogEntry(**value);
  if (!entry.has_value()) return Undecodable("a backlog entry");
  return entry;
}

absl::StatusOr<BacklogOwners> RocksDbStore::BacklogSubscriptions(uint16_t shard) {
  constexpr SubscriptionId kLast{std::numeric_limits<uint32_t>::max()};
  const StoreKey lower = EncodeBacklogKey(shard, SubscriptionId{}, MessageKey{});
  const StoreKey upper = BacklogEnd(shard, kLast);
  BacklogOwners owners;
  const auto range = impl_->Range(lower, upper, OnDamage::kGoAround);
  while (range->Valid()) {
    const std::optional<BacklogPlace> place = DecodeBacklogKey(range->key());
    if (!place.has_value()) return Undecodable("a backlog key");
    owners.subscriptions.push_back(place->subscription);
    range->Seek(BacklogEnd(shard, place->subscription).bytes());
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  owners.damaged = range->went_around();
  return owners;
}

absl::StatusOr<std::optional<MessageKey>> RocksDbStore::BacklogClaim(uint16_t shard,
                                                                     SubscriptionId subscription) {
  const auto value = impl_->GetOne(BacklogClaimKey(shard, subscription));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<MessageKey>();
  const std::optional<MessageKey> key = DecodePlace(**value);
  if (!key.has_value()) return Undecodable("a backlog claim");
  return key;
}

absl::StatusOr<std::vector<ProgressRef>> RocksDbStore::GetProgress(uint16_t shard,
                                                                   const MessageKey& key) {
  const StoreKey lower = ProgressBegin(shard, key);
  const StoreKey upper = ProgressEnd(shard, key);
  std::vector<ProgressRef> found;
  const auto range = impl_->Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    const std::optional<SubscriptionId> subscription = DecodeProgressKey(range->key());
    const std::optional<Progress> progress = DecodeProgress(range->value());
    if (!subscription.has_value() || !progress.has_value()) return Undecodable("progress");
    found.emplace_back(*subscription, *progress);
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return found;
}

absl::StatusOr<ShardMarks> RocksDbStore::Marks(uint16_t shard) {
  ShardMarks marks;
  const auto claim_bytes = impl_->GetOne(ClaimKey(shard));
  if (!claim_bytes.ok()) return claim_bytes.status();
  if (claim_bytes->has_value()) {
    const std::optional<ClaimValue> claim = DecodeClaim(**claim_bytes);
    if (!claim.has_value()) return Undecodable("a claim");
    std::tie(marks.claim_ms, marks.claim_return) = *claim;
  }
  const auto low_bytes = impl_->GetOne(LowWatermarkKey(shard));
  if (!low_bytes.ok()) return low_bytes.status();
  if (low_bytes->has_value()) {
    const std::optional<uint64_t> low = DecodeNumber(**low_bytes);
    if (!low.has_value()) return Undecodable("a mark");
    marks.low_watermark_ms = *low;
  }
  return marks;
}

absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> RocksDbStore::Topics() {
  const StoreKey lower = TopicKey(TopicId{});
  const StoreKey upper = TopicKeysEnd();
  std::vector<std::pair<TopicId, std::string>> topics;
  const auto range = impl_->Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    const std::optional<TopicId> topic = DecodeTopicKey(range->key());
    if (!topic.has_value()) return Undecodable("a topic key");
    topics.emplace_back(*topic, std::string(range->value()));
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return topics;
}

absl::Status RocksDbStore::WriteWitness() {
  impl_->database()->StopDamagedCompactions();
  return impl_->database()->WriteWitness();
}
absl::Status RocksDbStore::WriteCheckpoint(const std::string& path) {
  return impl_->database()->WriteCheckpoint(path);
}
DamageReport RocksDbStore::Damage() const { return impl_->source()->damage().report(); }
uint64_t RocksDbStore::BacklogDamage() const {
  return impl_->source()->damage().CountOf(LayoutOf(ColumnFamily::kBacklog).name);
}
bool RocksDbStore::BacklogHidden() const {
  return impl_->source()->damage().TableOf(LayoutOf(ColumnFamily::kBacklog).name);
}
absl::Status RocksDbStore::Close() { return impl_->database()->Close(); }

absl::StatusOr<uint64_t> RocksDbStore::DiskFreeBytes() const {
  return FreeBytes(impl_->database()->data_dir());
}

bool RocksDbStore::ReopenWouldHelp() const {
  // Open writes the content of the logs to tables, and begins a log.
  constexpr uint64_t kMoreBytes = 16 << 20;
  const RocksDbDatabase& database = *impl_->database();
  return database.fence_may_pass() &&
         ProbeDirectory(database.data_dir(), database.WalBytes() + kMoreBytes).ok();
}

RocksDbStats RocksDbStore::Stats() const {
  const RocksDbDatabase& database = *impl_->database();
  rocksdb::DB* db = database.db();
  const auto sum = [db](const std::string& property) {
    uint64_t value = 0;
    return db->GetAggregatedIntProperty(property, &value) ? value : 0;
  };
  const auto one = [db](const std::string& property) {
    uint64_t value = 0;
    return db->GetIntProperty(property, &value) ? value : 0;
  };
  RocksDbStats stats;
  stats.wal_bytes = database.WalBytes();
  stats.memtable_bytes = sum(rocksdb::DB::Properties::kSizeAllMemTables);
  stats.table_bytes = sum(rocksdb::DB::Properties::kTotalSstFilesSize);
  stats.block_cache_bytes = one(rocksdb::DB::Properties::kBlockCacheUsage);
  stats.compaction_pending_bytes = sum(rocksdb::DB::Properties::kEstimatePendingCompactionBytes);
  stats.writes_stopped = one(rocksdb::DB::Properties::kIsWriteStopped) != 0;
  stats.writes_delayed = one(rocksdb::DB::Properties::kActualDelayedWriteRate) != 0;
  const DamageReport damage = Damage();
  stats.damaged_blocks = damage.blocks.size() + damage.unlisted;
  stats.stopped_families = damage.stopped_families.size();
  stats.fenced = database.fenced();
  return stats;
}

}  // namespace duetime::storage
