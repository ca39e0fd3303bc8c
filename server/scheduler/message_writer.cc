// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/message_writer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/protocol/topic_use.h"

namespace duetime::scheduler {

using storage::Durability;
using storage::MessageKey;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

void MessageWriter::Put(const MessageKey& key, TopicId topic, std::string record,
                        std::optional<size_t> replaces) {
  DT_CHECK(!record.empty());
  if (replaces.has_value()) {
    const Record& earlier = writes_->open_records()[*replaces];
    DT_CHECK(earlier.type == RecordType::kAccept);
    DT_CHECK(earlier.key.id == key.id);
    DT_CHECK(earlier.topic == topic);
    Count(topic, earlier.key, -1);
  }
  Count(topic, key, 1);
  if (!watched_.empty()) NoteUse(topic);
  Record accept;
  accept.type = RecordType::kAccept;
  accept.shard = shard_;
  accept.topic = topic;
  accept.key = key;
  accept.value = std::move(record);
  if (replaces.has_value()) {
    writes_->Replace(*replaces, std::move(accept));
  } else {
    writes_->Add(std::move(accept), Durability::kSynced);
  }
}

void MessageWriter::Erase(const MessageKey& key, TopicId topic, uint32_t bytes,
                          Durability durability) {
  Count(topic, key, -1);
  recent_.Forget(key.id);
  Record erase;
  erase.type = RecordType::kErase;
  erase.shard = shard_;
  erase.topic = topic;
  erase.key = key;
  erase.bytes = bytes;
  writes_->Add(std::move(erase), durability);
}

void MessageWriter::PutLocator(const storage::MessageId& id, const storage::Locator& locator,
                               Durability durability) {
  AddTrace(id, storage::EncodeLocator(locator), durability);
}

void MessageWriter::PutTombstone(const storage::MessageId& id, const storage::Tombstone& tombstone,
                                 Durability durability) {
  if (rows_batch_ != writes_->batches_begun()) {
    rows_batch_ = writes_->batches_begun();
    rows_.clear();
  }
  const auto add = [&id, &tombstone](std::string* row) {
    return storage::AddTombstone(id, tombstone, row);
  };
  const size_t next = writes_->open_records().size();
  const auto [it, added] = rows_.try_emplace({id.high, tombstone.topic, tombstone.state}, next);
  if (!added) {
    DT_CHECK(writes_->open_records().at(it->second).type == RecordType::kLocator);
    if (writes_->ExtendValue(it->second, durability, add)) return;
    it->second = next;
  }
  std::string row;
  DT_CHECK(add(&row));
  AddTrace(id, std::move(row), durability);
}

void MessageWriter::AddTrace(const storage::MessageId& id, std::string row, Durability durability) {
  Record record;
  record.type = RecordType::kLocator;
  record.shard = shard_;
  record.key.id = id;
  record.value = std::move(row);
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

void MessageWriter::Count(TopicId topic, const MessageKey& key, int64_t messages) {
  if (topic != last_topic_ || last_pending_ == nullptr) {
    last_topic_ = topic;
    last_pending_ = PendingOf(topic);
  }
  if (last_pending_ != nullptr) *last_pending_ += messages;
  if (!recount_.empty()) recount_.Note(topic, key, /*put=*/messages > 0);
  if (!minutes_.empty()) minutes_.Add(topic, MinuteOf(key.due_ms), messages);
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
  DT_CHECK_EQ(writes_->batches_in_flight(), 0u);
  minutes_.Begin(topic);
  beginning_.erase(topic);
  // The store does not have the open batch yet.
  for (const Record& record : writes_->open_records()) {
    if (record.topic != topic) continue;
    const int64_t messages = storage::CountOf(record).messages;
    if (messages != 0) minutes_.Add(topic, MinuteOf(record.key.due_ms), messages);
  }
}

void MessageWriter::Watch(TopicId topic, std::shared_ptr<protocol::TopicUse> use) {
  if (use == nullptr) {
    watched_.erase(topic);
  } else {
    watched_[topic] = std::move(use);
  }
}

void MessageWriter::NoteUse(TopicId topic) {
  const auto it = watched_.find(topic);
  if (it == watched_.end()) return;
  // False if another topic has the number by now: its command is on the way, and it is visible.
  static_cast<void>(it->second->Use());
  watched_.erase(it);
  used_.push_back(topic);
}

int64_t* MessageWriter::PendingOf(TopicId topic) {
  if (const auto it = pending_.find(topic); it != pending_.end()) return &it->second;
  std::vector<storage::BucketCount> counts;
  absl::Status status =
      store_->ReadCounts(shard_, topic, storage::CountLevel::kTopic, {0, 1}, 1, &counts);
  if (storage::IsDamage(status)) {
    recount_.Begin(topic);
  } else if (!status.ok()) {
    read_status_ = std::move(status);
    return nullptr;
  }
  const uint64_t stored = counts.empty() ? 0 : counts[0].messages;
  return &pending_.emplace(topic, static_cast<int64_t>(stored)).first->second;
}

absl::StatusOr<int64_t> MessageWriter::Pending(TopicId topic) {
  const int64_t* const pending = PendingOf(topic);
  if (pending == nullptr) return read_status_;
  return recount_.Has(topic) ? std::max<int64_t>(*pending, 1) : *pending;
}

bool MessageWriter::Recount() {
  if (recount_.empty() || !read_status_.ok()) return false;
  std::vector<PendingRecount::Counted> counted;
  read_status_ = recount_.Step(&counted);
  for (const auto& [topic, messages] : counted) {
    DT_CHECK(pending_.contains(topic));
    // Decisions since the beginning are in both counts.
    const int64_t before = messages - std::exchange(pending_[topic], messages);
    if (protocol::TopicQuota* const quota = QuotaOf(topic)) {
      quota->pending.fetch_add(before, std::memory_order_relaxed);
    }
  }
  return !recount_.empty() && read_status_.ok();
}

absl::Status MessageWriter::SetQuota(TopicId topic, std::shared_ptr<protocol::TopicQuota> quota) {
  if (quotas_.contains(topic)) return absl::OkStatus();
  const int64_t* const pending = PendingOf(topic);
  if (pending == nullptr) return read_status_;
  quota->pending.fetch_add(*pending, std::memory_order_relaxed);
  quotas_[topic] = std::move(quota);
  return absl::OkStatus();
}

absl::Status MessageWriter::BeginWaitingCounts() {
  DT_CHECK(!waits_to_count());
  while (!beginning_.empty()) BeginMinutes(*beginning_.begin());
  return read_status_.ok() ? minutes_.read_status() : read_status_;
}

}  // namespace duetime::scheduler
