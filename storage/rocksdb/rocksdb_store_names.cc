// SPDX-License-Identifier: Apache-2.0
//
// The part of RocksDbStore that reads heads, the index, locators, counters and objects.
#include <algorithm>
#include <limits>

#include "storage/day_counts.h"
#include "storage/find_trace.h"
#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "storage/rocksdb/rocksdb_store_impl.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

absl::Status AddBucket(uint64_t start_ms, const CountDelta& sum, std::vector<BucketCount>* counts) {
  if (sum == CountDelta{}) return absl::OkStatus();
  if (sum.messages < 0 || sum.bytes < 0) return Undecodable("a counter below zero");
  counts->push_back(
      {start_ms, static_cast<uint64_t>(sum.messages), static_cast<uint64_t>(sum.bytes)});
  return absl::OkStatus();
}

// Appends the buckets of a day that start within `times`, until there are `limit` counts.
absl::Status AddDay(uint64_t day_ms, absl::string_view bytes, CountLevel level,
                    const MsRange& times, size_t limit, std::vector<BucketCount>* counts) {
  DayDecoder day(bytes);
  uint64_t start_ms = 0;
  CountDelta sum;
  while (counts->size() < limit && day.Next()) {
    const uint64_t bucket_ms = BucketStart(level, day_ms + day.minute() * kMinuteMs);
    if (bucket_ms < times.from_ms) continue;
    if (bucket_ms >= times.until_ms) break;
    if (bucket_ms != start_ms) {
      if (absl::Status status = AddBucket(start_ms, sum, counts); !status.ok()) return status;
      start_ms = bucket_ms;
      sum = {};
    }
    sum = Sum(sum, day.delta());
  }
  if (day.invalid()) return Undecodable("a counter");
  return counts->size() < limit ? AddBucket(start_ms, sum, counts) : absl::OkStatus();
}

}  // namespace

absl::Status RocksDbStore::ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
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
  const auto range = impl_->Range(lower, upper, OnDamage::kGoAroundInSteps);
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

absl::StatusOr<std::optional<IndexEntry>> RocksDbStore::GetIndex(uint16_t shard, TopicId topic,
                                                                 IndexKind kind,
                                                                 absl::string_view name) {
  const NameKey key = NameKey::OfIndex(shard, topic, static_cast<uint8_t>(kind), name);
  const auto value = impl_->source()->Get(key.family(), key.bytes());
  if (!value.ok()) return value.status();
  if (!value->has_value()) return std::optional<IndexEntry>();
  return DecodeIndexEntry(**value);
}

absl::Status RocksDbStore::ScanIndex(uint16_t shard, TopicId topic, IndexKind kind,
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
      impl_->source()->NewReader(ColumnFamily::kIndex, lower, end.bytes(), OnDamage::kGoAround);
  for (; entries->size() < limit && range->Valid(); range->Next()) {
    const std::optional<absl::string_view> name = DecodeIndexKey(range->key());
    if (!name.has_value()) return Undecodable("an index key");
    const absl::StatusOr<IndexEntry> entry = DecodeIndexEntry(range->value());
    if (!entry.ok()) return entry.status();
    entries->push_back({std::string(*name), *entry});
  }
  return range->status();
}

absl::StatusOr<std::optional<Locator>> RocksDbStore::GetLocator(uint16_t shard,
                                                                const MessageId& id) {
  const auto own = impl_->GetOne(EncodeLocatorKey(shard, id));
  if (!own.ok()) return own.status();
  if (own->has_value()) return ReadTraceRow(id, **own, id);
  return FindTrace(impl_->source(), shard, id, OnDamage::kFail);
}

absl::Status RocksDbStore::ReadCounts(uint16_t shard, TopicId topic, CountLevel level,
                                      const MsRange& times, size_t limit,
                                      std::vector<BucketCount>* counts) {
  counts->clear();
  if (times.from_ms >= times.until_ms || limit == 0) return absl::OkStatus();
  if (level != CountLevel::kTopic) {
    return ReadDayCounts(shard, topic, level, times, limit, counts);
  }
  if (times.from_ms > 0) return absl::OkStatus();
  absl::Status status = ReadTopicCount(shard, topic, counts);
  return IsDamage(status) ? SumDays(shard, topic, counts) : status;
}

absl::Status RocksDbStore::SumDays(uint16_t shard, TopicId topic,
                                   std::vector<BucketCount>* counts) {
  const StoreKey lower = DayKey(shard, topic, 0);
  const StoreKey upper = DayKey(shard, topic, std::numeric_limits<uint64_t>::max());
  CountDelta sum;
  const auto range = impl_->Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    DayDecoder day(range->value());
    while (day.Next()) sum = Sum(sum, day.delta());
    if (day.invalid()) return Undecodable("a counter");
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return AddBucket(0, sum, counts);
}

absl::Status RocksDbStore::ScanCounts(uint16_t shard, TopicId topic, CountLevel level,
                                      const MsRange& times, size_t limit,
                                      std::vector<BucketCount>* counts) {
  absl::Status status = ReadCounts(shard, topic, level, times, limit, counts);
  if (!IsDamage(status)) return status;
  counts->clear();
  return CountMessages(shard, topic, level, times, limit, counts);
}

absl::Status RocksDbStore::ReadTopicCount(uint16_t shard, TopicId topic,
                                          std::vector<BucketCount>* counts) {
  const auto value = impl_->GetOne(CountKey(shard, topic));
  if (!value.ok()) return value.status();
  const std::optional<CountDelta> sum =
      value->has_value() ? DecodeCountDelta(**value) : CountDelta{};
  return sum.has_value() ? AddBucket(0, *sum, counts) : Undecodable("a counter");
}

absl::Status RocksDbStore::ReadDayCounts(uint16_t shard, TopicId topic, CountLevel level,
                                         const MsRange& times, size_t limit,
                                         std::vector<BucketCount>* counts) {
  const StoreKey lower = DayKey(shard, topic, DayOf(times.from_ms));
  const StoreKey upper = DayKey(shard, topic, times.until_ms);
  const auto range = impl_->Range(lower, upper, OnDamage::kFail);
  for (; counts->size() < limit && range->Valid(); range->Next()) {
    const std::optional<CountPlace> place = DecodeCountKey(range->key());
    if (!place.has_value()) return Undecodable("a counter");
    absl::Status status = AddDay(place->start_ms, range->value(), level, times, limit, counts);
    if (!status.ok()) return status;
  }
  return range->status();
}

absl::Status RocksDbStore::CountMessages(uint16_t shard, TopicId topic, CountLevel level,
                                         const MsRange& times, size_t limit,
                                         std::vector<BucketCount>* counts) {
  // The last bucket begins before until_ms and may end after it.
  uint64_t from_ms = 0;
  uint64_t until_ms = MessageId::kDueMax;
  if (level != CountLevel::kTopic) {
    const uint64_t bucket_ms = level == CountLevel::kHour ? kHourMs : kMinuteMs;
    from_ms = BucketStart(level, times.from_ms + bucket_ms - 1);
    until_ms = std::min(until_ms, BucketStart(level, times.until_ms - 1) + bucket_ms);
  }
  if (from_ms >= until_ms) return absl::OkStatus();
  const StoreKey lower = EncodeMessageKey(shard, MessageKey::FirstAt(from_ms));
  const StoreKey upper = EncodeMessageKey(shard, MessageKey::FirstAt(until_ms));
  const auto range = impl_->Range(lower, upper, OnDamage::kGoAround);
  for (; range->Valid(); range->Next()) {
    const std::optional<MessageKey> key = DecodeMessageKey(range->key());
    if (!key.has_value()) return Undecodable("a message key");
    MessageHeader header;
    if (!DecodeMessageHeader(range->value(), &header).ok() || header.topic != topic) continue;
    const uint64_t start_ms = BucketStart(level, key->due_ms);
    if (counts->empty() || counts->back().start_ms != start_ms) {
      if (counts->size() == limit) break;
      counts->push_back({start_ms, 0, 0});
    }
    ++counts->back().messages;
    counts->back().bytes += range->value().size();
  }
  return range->status();
}

absl::StatusOr<std::optional<std::string>> RocksDbStore::GetObject(ObjectKind kind, uint16_t shard,
                                                                   absl::string_view name) {
  const NameKey key = NameKey::OfObject(static_cast<uint8_t>(kind), shard, name);
  return impl_->source()->Get(key.family(), key.bytes());
}

absl::Status RocksDbStore::ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after,
                                       size_t limit, std::vector<ObjectRef>* objects) {
  objects->clear();
  const auto kind_number = static_cast<uint8_t>(kind);
  const NameKey begin = NameKey::OfObject(kind_number, shard, after).After();
  const NameKey end = NameKey::OfObject(kind_number, shard, "").EndOfPrefix();
  const auto range = impl_->source()->NewReader(ColumnFamily::kObjects, begin.bytes(), end.bytes(),
                                                OnDamage::kFail);
  for (; objects->size() < limit && range->Valid(); range->Next()) {
    const std::optional<absl::string_view> name = DecodeObjectKey(range->key());
    if (!name.has_value()) return Undecodable("an object key");
    objects->push_back({std::string(*name), std::string(range->value())});
  }
  return range->status();
}

void RocksDbStore::DropExpired(uint64_t until_ms) { impl_->kv()->DropExpired(until_ms); }

}  // namespace duetime::storage
