// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that settles messages for their subscriptions, and ends them.
#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dispatcher.h"

namespace duetime::delivery {

using storage::Durability;
using storage::EndState;
using storage::MessageKey;
using storage::Progress;
using storage::Record;
using storage::RecordType;
using storage::SubscriptionId;

// ---- What is noted beside a message
// ---------------------------------------------------------------------------------

bool Dispatcher::ReadRows(const MessageKey& key) {
  auto rows = store_->GetProgress(shard_, key);
  if (!rows.ok()) {
    read_error_ = rows.status();
    rows_.clear();
    return false;
  }
  rows_ = *std::move(rows);
  return true;
}

const Progress* Dispatcher::RowOf(SubscriptionId subscription) const {
  for (const auto& [id, progress] : rows_) {
    if (id == subscription) return &progress;
  }
  return nullptr;
}

bool Dispatcher::ReadRecord(const MessageKey& key, std::optional<std::string>* record) {
  auto read = store_->Get(shard_, key);
  if (!read.ok()) {
    read_error_ = read.status();
    return false;
  }
  *record = *std::move(read);
  return true;
}

void Dispatcher::AddProgress(const MessageKey& key, const Subscription& subscription,
                             const Progress& progress) {
  Record record;
  record.type = RecordType::kProgress;
  record.shard = shard_;
  record.subscription = subscription.state.id;
  record.key = key;
  record.progress = progress;
  outbox_->Add(std::move(record), Durability::kBuffered);
}

void Dispatcher::RemoveProgress(const MessageKey& key, SubscriptionId subscription) {
  Record record;
  record.type = RecordType::kUnprogress;
  record.shard = shard_;
  record.subscription = subscription;
  record.key = key;
  outbox_->Add(std::move(record), Durability::kBuffered);
}

void Dispatcher::RemoveRows(const MessageKey& key) {
  for (const auto& [id, progress] : rows_) RemoveProgress(key, id);
  // And those on their way.
  for (EntryIndex i = table_.Find(key.id); i != kNoEntry; i = table_[i].sibling) {
    const DueEntry& entry = table_[i];
    const SubscriptionId id = entry.subscription->state.id;
    if (entry.due_ms == key.due_ms && entry.progress && RowOf(id) == nullptr) {
      RemoveProgress(key, id);
    }
  }
}

// ---- Settling
// -------------------------------------------------------------------------------------------------------

bool Dispatcher::IsLast(const MessageKey& key, const Subscription& subscription) {
  rows_.clear();
  const Topic& topic = *subscription.topic;
  if (!topic.several) return true;
  bool look = false;
  for (const Subscription* const other : topic.subscriptions) {
    if (other == &subscription || !other->Covers(key.id)) continue;
    const EntryIndex index = table_.Find(key.id, other);
    // One at another place is an echo and says nothing.
    if (index == kNoEntry || table_[index].due_ms != key.due_ms) {
      look = true;
    } else if (table_[index].state != EntryState::kEnding) {
      return false;
    }
  }
  if (!ReadRows(key)) return false;
  if (!look) return true;
  for (const Subscription* const other : topic.subscriptions) {
    if (other == &subscription || !other->Covers(key.id)) continue;
    const EntryIndex index = table_.Find(key.id, other);
    if (index != kNoEntry && table_[index].due_ms == key.due_ms) continue;
    const Progress* const row = RowOf(other->state.id);
    if (row == nullptr || row->state != Progress::State::kSettled) return false;
  }
  return true;
}

void Dispatcher::SettleEntry(base::Now now, EntryIndex index, EndState how, Durability durability) {
  TakeOut(index);
  DueEntry& entry = table_[index];
  DT_CHECK(entry.seen);
  const Subscription& subscription = *entry.subscription;
  const MessageKey key = entry.key();
  if (entry.spilled) AddUnspill(entry.place(), subscription);
  const bool last = IsLast(key, subscription);
  entry.state = EntryState::kEnding;
  entry.whole = last;
  if (!last) {
    // What a cancel has to know: somebody has, or may have, been given it. A dead letter was made
    // to be given to somebody.
    const bool touched = entry.maybe_delivered || how == EndState::kDeadLettered;
    const uint32_t attempts = std::max(entry.attempts, touched ? 1u : 0u);
    if (subscription.state.deleting && attempts == 0) {
      if (entry.progress) RemoveProgress(key, subscription.state.id);
      return;
    }
    entry.progress = true;
    AddProgress(key, subscription, {.state = Progress::State::kSettled, .attempts = attempts});
    return;
  }
  RemoveRows(key);
  storage::Fate fate;
  fate.state = how;
  fate.topic = subscription.topic->id;
  fate.attempts = entry.attempts;
  for (const auto& [id, progress] : rows_) {
    fate.attempts = std::max(fate.attempts, progress.attempts);
  }
  fate.payload_bytes = entry.payload_bytes;
  fate.deliver_ms = entry.deliver_ms;
  fate.accept_ms = entry.accept_ms;
  fate.fire_ms = entry.fire_ms;
  fate.dispatch_ms = entry.dispatch_ms;
  fate.end_ms = now.wall_ms;
  if (const auto details = details_.find(index); details != details_.end()) {
    fate.key = details->second.key;
    fate.revision = details->second.revision;
  }
  if (absl::Status status =
          endings_.Write(key, entry.record_bytes, subscription.topic->fate_retention_ms,
                         std::move(fate), durability);
      !status.ok()) {
    read_error_ = status;
  }
}

void Dispatcher::FinishEnd(EntryIndex index) {
  const StreamId stream = table_[index].stream;
  const uint32_t bytes = table_[index].bytes;
  Forget(index);
  if (stream != StreamId{}) ReturnCredit(stream, 1, bytes);
}

void Dispatcher::TakeOut(EntryIndex index) {
  DueEntry& entry = table_[index];
  Subscription* const subscription = entry.subscription;
  switch (entry.state) {
    case EntryState::kReady:
      table_.Unlink(&subscription->ready, index);
      --ready_;
      break;
    case EntryState::kInFlight:
      EndLease(index);
      break;
    case EntryState::kDelayed:
      timers_.Cancel(&entry.timer);
      --subscription->delayed;
      --delayed_;
      break;
    case EntryState::kBlocked:
      subscription->holds.RemoveWaiting(entry.order, index);
      entry.order = 0;
      --blocked_;
      break;
    case EntryState::kTaken:
    case EntryState::kForgetting:
      break;
    case EntryState::kFree:
    case EntryState::kEnding:
      DT_CHECK(false);
  }
  ReleaseOrder(index);
}

void Dispatcher::ReleaseOrder(EntryIndex index) {
  DueEntry& entry = table_[index];
  if (entry.order == 0) return;
  Subscription* const subscription = entry.subscription;
  const EntryIndex next = subscription->holds.Release(entry.order, index);
  entry.order = 0;
  if (next == kNoEntry) return;
  DT_CHECK(table_[next].state == EntryState::kBlocked);
  --blocked_;
  // It is older than what is ready.
  table_[next].state = EntryState::kReady;
  table_.PushFront(&subscription->ready, next);
  ++ready_;
  Enqueue(subscription);
}

void Dispatcher::Forget(EntryIndex index) {
  DueEntry& entry = table_[index];
  if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
  if (!details_.empty()) details_.erase(index);
  Subscription* const subscription = entry.subscription;
  --subscription->entries;
  table_.Remove(index);
  scheduler_->NoteProgress();
  WantReadBack(subscription);
}

}  // namespace duetime::delivery
