// SPDX-License-Identifier: Apache-2.0
#include "storage/record_store.h"

#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "storage/find_trace.h"
#include "storage/message_record.h"
#include "storage/value_codec.h"

namespace duetime::storage {

RecordStore::RecordStore(std::unique_ptr<KvStore> kv, const StoreState& state)
    : kv_(std::move(kv)),
      source_(kv_->source()),
      in_cell_(state.log_place.has_value()),
      first_sequence_(in_cell_ ? 1 : state.first_sequence),
      shard_count_(state.shard_count),
      log_place_(state.log_place.value_or(LogPlace{})),
      epoch_(in_cell_ ? log_place_.epoch : state.epoch),
      applied_offset_(log_place_.offset) {
  read_status_ = writer_.Open(source_, shard_count_);
}

AppendOutcome RecordStore::Append(std::span<const RecordBatch> group, Durability durability) {
  DT_CHECK(!in_cell());
  const absl::Status status = Write(group, nullptr, durability);
  if (status.ok()) return AppendOutcome::kAccepted;
  return absl::IsFailedPrecondition(status) ? AppendOutcome::kFenced : AppendOutcome::kUnknown;
}

absl::Status RecordStore::ApplyLogged(std::span<const RecordBatch> group, const LogPlace& place) {
  for (const RecordBatch& batch : group) {
    for (const Record& record : batch) {
      if (record.shard < shard_count() || record.shard == kNoShard) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("a record of the log is of shard ", record.shard, "; this member has ",
                       shard_count(), " shards, and all members need the same number"));
    }
  }
  absl::Status status = Write(group, &place, Durability::kBuffered);
  if (!status.ok()) return status;
  log_place_ = place;
  epoch_.store(place.epoch);
  applied_offset_.store(place.offset, std::memory_order_release);
  return status;
}

absl::Status RecordStore::EnterCell(const LogPlace& place) {
  DT_CHECK(!in_cell());
  return Write({}, &place, Durability::kSynced);
}

absl::Status RecordStore::Write(std::span<const RecordBatch> group, const LogPlace* place,
                                Durability durability) {
  if (!read_status_.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a read for an append failed: ", read_status_.message()));
  }
  read_status_ = writer_.Prepare(group, source_);
  if (!read_status_.ok()) return read_status_;
  return kv_->Append(
      [&](KvBatch* batch) {
        writer_.Write(batch);
        if (place == nullptr) return;
        batch->Put(ColumnFamily::kMeta, LogPlaceKey().bytes(), EncodeLogPlace(*place));
      },
      durability);
}

absl::Status RecordStore::Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                               const ScanLimit& limit, Page<MessageRef>* page) {
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (from >= until) return absl::OkStatus();
  const StoreKey lower = EncodeMessageKey(shard, from);
  const StoreKey upper = EncodeMessageKey(shard, until);
  size_t bytes = 0;
  const auto range = Range(lower, upper, OnDamage::kGoAroundInSteps);
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

absl::StatusOr<std::optional<std::string>> RecordStore::Get(uint16_t shard, const MessageKey& key) {
  return GetOne(EncodeMessageKey(shard, key));
}

absl::Status RecordStore::MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                   std::vector<std::optional<std::string>>* values) {
  values->clear();
  values->reserve(keys.size());
  std::vector<StoreKey> wanted;
  wanted.reserve(keys.size());
  for (const MessageKey& key : keys) wanted.push_back(EncodeMessageKey(shard, key));
  return source_->GetMany(wanted, values);
}

absl::Status RecordStore::ScanBacklog(uint16_t shard, SubscriptionId subscription,
                                      const MessageKey& from, const ScanLimit& limit,
                                      Page<BacklogRef>* page) {
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  const StoreKey lower = EncodeBacklogKey(shard, subscription, from);
  const StoreKey upper = BacklogEnd(shard, subscription);
  const auto range = Range(lower, upper, OnDamage::kGoAroundInSteps);
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

absl::StatusOr<std::optional<BacklogEntry>> RecordStore::GetBacklog(uint16_t shard,
                                                                    SubscriptionId subscription,
                                                                    const MessageKey& key) {
  const auto value = GetOne(EncodeBacklogKey(shard, subscription, key));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<BacklogEntry>();
  const std::optional<BacklogEntry> entry = DecodeBacklogEntry(**value);
  if (!entry.has_value()) return Undecodable("a backlog entry");
  return entry;
}

absl::StatusOr<BacklogOwners> RecordStore::BacklogSubscriptions(uint16_t shard) {
  constexpr SubscriptionId kLast{std::numeric_limits<uint32_t>::max()};
  const StoreKey lower = EncodeBacklogKey(shard, SubscriptionId{}, MessageKey{});
  const StoreKey upper = BacklogEnd(shard, kLast);
  BacklogOwners owners;
  const auto range = Range(lower, upper, OnDamage::kGoAround);
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

absl::StatusOr<std::optional<MessageKey>> RecordStore::BacklogClaim(uint16_t shard,
                                                                    SubscriptionId subscription) {
  const auto value = GetOne(BacklogClaimKey(shard, subscription));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<MessageKey>();
  const std::optional<MessageKey> key = DecodePlace(**value);
  if (!key.has_value()) return Undecodable("a backlog claim");
  return key;
}

absl::StatusOr<std::optional<Progress>> RecordStore::GetProgressOf(uint16_t shard,
                                                                   const MessageKey& key,
                                                                   SubscriptionId subscription) {
  const auto value = GetOne(EncodeProgressKey(shard, key, subscription));
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<Progress>();
  std::optional<Progress> progress = DecodeProgress(**value);
  if (!progress.has_value()) return Undecodable("a progress record");
  return progress;
}

absl::StatusOr<std::vector<ProgressRef>> RecordStore::GetProgress(uint16_t shard,
                                                                  const MessageKey& key) {
  const StoreKey lower = ProgressBegin(shard, key);
  const StoreKey upper = ProgressEnd(shard, key);
  std::vector<ProgressRef> found;
  const auto range = Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    const std::optional<SubscriptionId> subscription = DecodeProgressKey(range->key());
    const std::optional<Progress> progress = DecodeProgress(range->value());
    if (!subscription.has_value() || !progress.has_value()) return Undecodable("progress");
    found.emplace_back(*subscription, *progress);
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return found;
}

absl::StatusOr<ShardMarks> RecordStore::Marks(uint16_t shard) {
  ShardMarks marks;
  const auto claim_bytes = GetOne(ClaimKey(shard));
  if (!claim_bytes.ok()) return claim_bytes.status();
  if (claim_bytes->has_value()) {
    const std::optional<ClaimValue> claim = DecodeClaim(**claim_bytes);
    if (!claim.has_value()) return Undecodable("a claim");
    std::tie(marks.claim_ms, marks.claim_return) = *claim;
  }
  const auto low_bytes = GetOne(LowWatermarkKey(shard));
  if (!low_bytes.ok()) return low_bytes.status();
  if (low_bytes->has_value()) {
    const std::optional<uint64_t> low = DecodeNumber(**low_bytes);
    if (!low.has_value()) return Undecodable("a mark");
    marks.low_watermark_ms = *low;
  }
  return marks;
}

absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> RecordStore::Topics() {
  const StoreKey lower = TopicKey(TopicId{});
  const StoreKey upper = TopicKeysEnd();
  std::vector<std::pair<TopicId, std::string>> topics;
  const auto range = Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    const std::optional<TopicId> topic = DecodeTopicKey(range->key());
    if (!topic.has_value()) return Undecodable("a topic key");
    topics.emplace_back(*topic, std::string(range->value()));
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return topics;
}

absl::Status RecordStore::ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
                                    const ScanLimit& limit, size_t scan_max,
                                    Page<MessageHeadRef>* page) {
  page->items.clear();
  page->next.reset();
  page->damaged = false;
  if (keys.from >= keys.until) return absl::OkStatus();
  const StoreKey lower = EncodeMessageKey(shard, keys.from);
  const StoreKey upper = EncodeMessageKey(shard, keys.until);
  size_t bytes = 0;
  size_t examined = 0;
  const auto range = Range(lower, upper, OnDamage::kGoAroundInSteps);
  for (; range->Valid(); range->Next()) {
    const std::optional<MessageKey> key = DecodeMessageKey(range->key());
    if (!key.has_value()) return Undecodable("a message key");
    page->damaged = range->went_around();
    const bool full =
        !page->items.empty() && (page->items.size() >= limit.entries || bytes >= limit.bytes);
    if (full || (examined != 0 && examined >= scan_max)) {
      page->next = *key;
      return absl::OkStatus();
    }
    ++examined;
    const absl::string_view value = range->value();
    MessageHeader header;
    if (absl::Status status = DecodeMessageHeader(value, &header); !status.ok()) return status;
    if (header.topic != topic) continue;
    absl::string_view head;
    if (absl::Status status = MessageHead(value, &head); !status.ok()) return status;
    page->items.push_back({*key, static_cast<uint32_t>(value.size()), std::string(head)});
    bytes += head.size();
  }
  page->damaged = range->went_around();
  if (range->stopped()) page->next = PlaceInMessages(range->stop());
  return range->status();
}

absl::StatusOr<std::optional<IndexEntry>> RecordStore::GetIndex(uint16_t shard, TopicId topic,
                                                                IndexKind kind,
                                                                absl::string_view name) {
  const NameKey key = NameKey::OfIndex(shard, topic, static_cast<uint8_t>(kind), name);
  const auto value = source_->Get(key.family(), key.bytes());
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<IndexEntry>();
  return DecodeIndexEntry(**value);
}

absl::Status RecordStore::ScanIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                    const NameRange& names, size_t limit,
                                    std::vector<IndexRef>* entries) {
  entries->clear();
  const auto kind_number = static_cast<uint8_t>(kind);
  const NameKey begin = NameKey::OfIndex(shard, topic, kind_number, names.prefix);
  const NameKey begin_after = NameKey::OfIndex(shard, topic, kind_number, names.after).After();
  const NameKey end = begin.EndOfPrefix();
  const absl::string_view lower = names.after < names.prefix ? begin.bytes() : begin_after.bytes();
  if (lower >= end.bytes()) return absl::OkStatus();
  const auto range =
      source_->NewReader(ColumnFamily::kIndex, lower, end.bytes(), OnDamage::kGoAround);
  for (; entries->size() < limit && range->Valid(); range->Next()) {
    const std::optional<absl::string_view> name = DecodeIndexKey(range->key());
    if (!name.has_value()) return Undecodable("an index key");
    const absl::StatusOr<IndexEntry> entry = DecodeIndexEntry(range->value());
    if (!entry.ok()) return entry.status();
    entries->push_back({std::string(*name), *entry});
  }
  return range->status();
}

absl::StatusOr<std::optional<Locator>> RecordStore::GetLocator(uint16_t shard,
                                                               const MessageId& id) {
  const auto own = GetOne(EncodeLocatorKey(shard, id));
  if (!own.ok()) return own.status();
  if (own->has_value()) return ReadTraceRow(id, **own, id);
  return FindTrace(source_, shard, id, OnDamage::kFail);
}

absl::StatusOr<std::optional<std::string>> RecordStore::GetObject(ObjectKind kind, uint16_t shard,
                                                                  absl::string_view name) {
  const NameKey key = NameKey::OfObject(static_cast<uint8_t>(kind), shard, name);
  return source_->Get(key.family(), key.bytes());
}

absl::Status RecordStore::ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after,
                                      size_t limit, std::vector<ObjectRef>* objects) {
  objects->clear();
  const auto kind_number = static_cast<uint8_t>(kind);
  const NameKey begin = NameKey::OfObject(kind_number, shard, after).After();
  const NameKey end = NameKey::OfObject(kind_number, shard, "").EndOfPrefix();
  const auto range =
      source_->NewReader(ColumnFamily::kObjects, begin.bytes(), end.bytes(), OnDamage::kFail);
  for (; objects->size() < limit && range->Valid(); range->Next()) {
    const std::optional<absl::string_view> name = DecodeObjectKey(range->key());
    if (!name.has_value()) return Undecodable("an object key");
    objects->push_back({std::string(*name), std::string(range->value())});
  }
  return range->status();
}

void RecordStore::DropExpired(uint64_t until_ms) { kv_->DropExpired(until_ms); }

DamageReport RecordStore::Damage() const { return source_->damage().report(); }
uint64_t RecordStore::BacklogDamage() const {
  return source_->damage().CountOf(LayoutOf(ColumnFamily::kBacklog).name);
}
bool RecordStore::BacklogHidden() const {
  return source_->damage().TableOf(LayoutOf(ColumnFamily::kBacklog).name);
}

}  // namespace duetime::storage
