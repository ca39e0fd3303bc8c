// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/message_writer.h"

namespace duetime::scheduler {

using storage::CountDelta;
using storage::Durability;
using storage::MessageKey;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

namespace {

constexpr uint64_t kMinuteMs = 60'000;

}  // namespace

void MessageWriter::Put(const MessageKey& key, TopicId topic, std::string record) {
  Count(topic, key.due_ms, 1, static_cast<int64_t>(record.size()));
  Record accept;
  accept.type = RecordType::kAccept;
  accept.shard = shard_;
  accept.topic = topic;
  accept.key = key;
  accept.value = std::move(record);
  outbox_->Add(std::move(accept), Durability::kSynced);
}

void MessageWriter::Erase(const MessageKey& key, TopicId topic, uint32_t bytes,
                          Durability durability) {
  Count(topic, key.due_ms, -1, -static_cast<int64_t>(bytes));
  Record erase;
  erase.type = RecordType::kErase;
  erase.shard = shard_;
  erase.topic = topic;
  erase.key = key;
  outbox_->Add(std::move(erase), durability);
}

void MessageWriter::PutTrace(const storage::MessageId& id, const storage::Trace& trace,
                             Durability durability) {
  Record record;
  record.type = RecordType::kTrace;
  record.shard = shard_;
  record.key.id = id;
  record.value = storage::EncodeTrace(trace);
  outbox_->Add(std::move(record), durability);
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
  outbox_->Add(std::move(record), durability);
}

void MessageWriter::Count(TopicId topic, uint64_t due_ms, int64_t messages, int64_t bytes) {
  const std::pair<TopicId, uint64_t> bucket{topic, due_ms - due_ms % kMinuteMs};
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
}

void MessageWriter::FlushCounts() {
  const auto add = [this](const std::pair<TopicId, uint64_t>& bucket, const CountDelta& delta) {
    if (delta == CountDelta{}) return;
    Record record;
    record.type = RecordType::kCount;
    record.shard = shard_;
    record.topic = bucket.first;
    record.mark_ms = bucket.second;
    record.delta = delta;
    // Buffered: as durable as what it counts, which is in the same batch.
    outbox_->Add(std::move(record), Durability::kBuffered);
  };
  add(last_, last_delta_);
  last_delta_ = {};
  for (const auto& [bucket, delta] : counts_) add(bucket, delta);
  counts_.clear();
}

}  // namespace duetime::scheduler
