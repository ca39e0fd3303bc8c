// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/message_writer.h"

#include <utility>
#include <vector>

#include "server/base/check.h"

namespace duetime::scheduler {

using storage::CountDelta;
using storage::Durability;
using storage::MessageKey;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

void MessageWriter::Put(const MessageKey& key, TopicId topic, std::string record) {
  Count(topic, key.due_ms, 1, static_cast<int64_t>(record.size()));
  if (!watched_.empty() && watched_.erase(topic) > 0) used_.push_back(topic);
  Record accept;
  accept.type = RecordType::kAccept;
  accept.shard = shard_;
  accept.topic = topic;
  accept.key = key;
  accept.value = std::move(record);
  writes_->Add(std::move(accept), Durability::kSynced);
}

void MessageWriter::Erase(const MessageKey& key, TopicId topic, uint32_t bytes,
                          Durability durability) {
  Count(topic, key.due_ms, -1, -static_cast<int64_t>(bytes));
  Record erase;
  erase.type = RecordType::kErase;
  erase.shard = shard_;
  erase.topic = topic;
  erase.key = key;
  writes_->Add(std::move(erase), durability);
}

void MessageWriter::PutLocator(const storage::MessageId& id, const storage::Locator& locator,
                               Durability durability) {
  Record record;
  record.type = RecordType::kLocator;
  record.shard = shard_;
  record.key.id = id;
  record.value = storage::EncodeLocator(locator);
  writes_->Add(std::move(record), durability);
}

void MessageWriter::PutIndex(TopicId topic, storage::IndexKind kind, std::string name,
                             const storage::IndexEntry& entry, Durability durability) {
  Record record;
  record.type = RecordType::kIndex;
  record.shard = shard_;
  record.topic = topic;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  record.value = storage::EncodeIndexEntry(entry);
  writes_->Add(std::move(record), durability);
}

void MessageWriter::PutObject(storage::ObjectKind kind, std::string name, std::string value,
                              Durability durability) {
  AddObject(RecordType::kObject, kind, std::move(name), std::move(value), durability);
}

void MessageWriter::RemoveObject(storage::ObjectKind kind, std::string name,
                                 Durability durability) {
  AddObject(RecordType::kUnobject, kind, std::move(name), "", durability);
}

void MessageWriter::AddObject(RecordType type, storage::ObjectKind kind, std::string name,
                              std::string value, Durability durability) {
  Record record;
  record.type = type;
  record.shard = shard_;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  record.value = std::move(value);
  writes_->Add(std::move(record), durability);
}

void MessageWriter::Count(TopicId topic, uint64_t due_ms, int64_t messages, int64_t bytes) {
  const std::pair<TopicId, uint64_t> bucket{topic, MinuteOf(due_ms)};
  if (bucket != last_) {
    if (last_delta_ != CountDelta{}) {
      CountDelta& sum = counts_[last_];
      sum.messages += last_delta_.messages;
      sum.bytes += last_delta_.bytes;
    }
    last_ = bucket;
    last_delta_ = {};
  }
  last_delta_.messages += messages;
  last_delta_.bytes += bytes;
  if (!minutes_.empty()) minutes_.Add(topic, bucket.second, messages);
  if (quotas_.empty()) return;
  if (protocol::TopicQuota* const quota = QuotaOf(topic)) {
    quota->pending.fetch_add(messages, std::memory_order_relaxed);
  }
}

protocol::TopicQuota* MessageWriter::QuotaOf(TopicId topic) const {
  const auto it = quotas_.find(topic);
  return it == quotas_.end() ? nullptr : it->second.get();
}

void MessageWriter::CountMinutes(TopicId topic, bool on) {
  if (!on) {
    beginning_.erase(topic);
    minutes_.End(topic);
  } else if (!minutes_.Has(topic)) {
    beginning_.insert(topic);
    if (!waits_to_count()) BeginMinutes(topic);
  }
}

void MessageWriter::BeginMinutes(TopicId topic) {
  minutes_.Begin(topic);
  beginning_.erase(topic);
  if (last_.first == topic) minutes_.Add(topic, last_.second, last_delta_.messages);
  for (const auto& [bucket, delta] : counts_) {
    if (bucket.first == topic) minutes_.Add(topic, bucket.second, delta.messages);
  }
}

void MessageWriter::Watch(TopicId topic, bool watch) {
  if (watch) {
    watched_.insert(topic);
  } else {
    watched_.erase(topic);
  }
}

absl::StatusOr<int64_t*> MessageWriter::Flushed(TopicId topic) {
  if (const auto it = flushed_.find(topic); it != flushed_.end()) return &it->second;
  std::vector<storage::BucketCount> counts;
  absl::Status status =
      store_->ScanCounts(shard_, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts);
  if (!status.ok()) return status;
  const uint64_t stored = counts.empty() ? 0 : counts[0].messages;
  return &flushed_.emplace(topic, static_cast<int64_t>(stored)).first->second;
}

absl::StatusOr<int64_t> MessageWriter::Pending(TopicId topic) {
  const absl::StatusOr<int64_t*> flushed = Flushed(topic);
  if (!flushed.ok()) return flushed.status();
  int64_t messages = **flushed;
  if (last_.first == topic) messages += last_delta_.messages;
  for (const auto& [bucket, delta] : counts_) {
    if (bucket.first == topic) messages += delta.messages;
  }
  return messages;
}

absl::Status MessageWriter::SetQuota(TopicId topic, std::shared_ptr<protocol::TopicQuota> quota) {
  if (quotas_.contains(topic)) return absl::OkStatus();
  const absl::StatusOr<int64_t> pending = Pending(topic);
  if (!pending.ok()) return pending.status();
  quota->pending.fetch_add(*pending, std::memory_order_relaxed);
  quotas_[topic] = std::move(quota);
  return absl::OkStatus();
}

absl::Status MessageWriter::FlushCounts() {
  DT_CHECK(!waits_to_count());
  while (!beginning_.empty()) BeginMinutes(*beginning_.begin());
  absl::Status status = minutes_.read_status();
  const auto add = [this, &status](const std::pair<TopicId, uint64_t>& bucket,
                                   const CountDelta& delta) {
    if (delta == CountDelta{}) return;
    const absl::StatusOr<int64_t*> flushed = Flushed(bucket.first);
    if (!flushed.ok()) {
      status = flushed.status();
      return;
    }
    **flushed += delta.messages;
    Record record;
    record.type = RecordType::kCount;
    record.shard = shard_;
    record.topic = bucket.first;
    record.mark_ms = bucket.second;
    record.delta = delta;
    // Buffered: the record is as durable as the messages that it counts, which are in the same
    // batch.
    writes_->Add(std::move(record), Durability::kBuffered);
  };
  add(last_, last_delta_);
  last_delta_ = {};
  for (const auto& [bucket, delta] : counts_) add(bucket, delta);
  counts_.clear();
  return status;
}

}  // namespace duetime::scheduler
