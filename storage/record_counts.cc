// SPDX-License-Identifier: Apache-2.0
//
// The part of RecordStore that reads counters.
#include <algorithm>
#include <limits>

#include "storage/day_counts.h"
#include "storage/message_record.h"
#include "storage/record_store.h"
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

absl::Status RecordStore::ReadCounts(uint16_t shard, TopicId topic, CountLevel level,
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

absl::Status RecordStore::SumDays(uint16_t shard, TopicId topic, std::vector<BucketCount>* counts) {
  const StoreKey lower = DayKey(shard, topic, 0);
  const StoreKey upper = DayKey(shard, topic, std::numeric_limits<uint64_t>::max());
  CountDelta sum;
  const auto range = Range(lower, upper, OnDamage::kFail);
  for (; range->Valid(); range->Next()) {
    DayDecoder day(range->value());
    while (day.Next()) sum = Sum(sum, day.delta());
    if (day.invalid()) return Undecodable("a counter");
  }
  if (absl::Status status = range->status(); !status.ok()) return status;
  return AddBucket(0, sum, counts);
}

absl::Status RecordStore::ScanCounts(uint16_t shard, TopicId topic, CountLevel level,
                                     const MsRange& times, size_t limit,
                                     std::vector<BucketCount>* counts) {
  absl::Status status = ReadCounts(shard, topic, level, times, limit, counts);
  if (!IsDamage(status)) return status;
  counts->clear();
  return CountMessages(shard, topic, level, times, limit, counts);
}

absl::Status RecordStore::ReadTopicCount(uint16_t shard, TopicId topic,
                                         std::vector<BucketCount>* counts) {
  const auto value = GetOne(CountKey(shard, topic));
  if (!value.ok()) return value.status();
  const std::optional<CountDelta> sum =
      value->has_value() ? DecodeCountDelta(**value) : CountDelta{};
  return sum.has_value() ? AddBucket(0, *sum, counts) : Undecodable("a counter");
}

absl::Status RecordStore::ReadDayCounts(uint16_t shard, TopicId topic, CountLevel level,
                                        const MsRange& times, size_t limit,
                                        std::vector<BucketCount>* counts) {
  const StoreKey lower = DayKey(shard, topic, DayOf(times.from_ms));
  const StoreKey upper = DayKey(shard, topic, times.until_ms);
  const auto range = Range(lower, upper, OnDamage::kFail);
  for (; counts->size() < limit && range->Valid(); range->Next()) {
    const std::optional<CountPlace> place = DecodeCountKey(range->key());
    if (!place.has_value()) return Undecodable("a counter");
    absl::Status status = AddDay(place->start_ms, range->value(), level, times, limit, counts);
    if (!status.ok()) return status;
  }
  return range->status();
}

absl::Status RecordStore::ReadDone(uint16_t shard, SubscriptionId subscription,
                                   const MsRange& times, size_t limit,
                                   std::vector<BucketCount>* counts) {
  counts->clear();
  const StoreKey lower = DoneKey(shard, subscription, DayOf(times.from_ms));
  const StoreKey upper = DoneKey(shard, subscription, times.until_ms);
  const auto range = Range(lower, upper, OnDamage::kGoAround);
  for (; counts->size() < limit && range->Valid(); range->Next()) {
    const std::optional<CountPlace> place = DecodeCountKey(range->key());
    if (!place.has_value()) return Undecodable("a counter");
    DayDecoder day(range->value());
    while (counts->size() < limit && day.Next()) {
      const uint64_t minute_ms = place->start_ms + day.minute() * kMinuteMs;
      // After damage, a message that ends may have been counted nowhere.
      if (minute_ms < times.from_ms || day.delta().messages <= 0) continue;
      if (minute_ms >= times.until_ms) break;
      counts->push_back({minute_ms, static_cast<uint64_t>(day.delta().messages), 0});
    }
    if (day.invalid()) return Undecodable("a counter");
  }
  return range->status();
}

absl::Status RecordStore::CountMessages(uint16_t shard, TopicId topic, CountLevel level,
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
  const auto range = Range(lower, upper, OnDamage::kGoAround);
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

}  // namespace duetime::storage
