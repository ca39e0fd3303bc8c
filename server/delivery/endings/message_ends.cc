// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/message_ends.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

using storage::Durability;
using storage::EndState;
using storage::MessageKey;
using storage::Progress;

MessageEnds::MessageEnds(const Core& core) : core_(core), endings_(core) {}

// ---- For one subscription

void MessageEnds::BeginSettle(base::Now now, EntryIndex index, EndState how, Durability durability,
                              storage::MessageId dead_letter) {
  core_.states.TakeOut(index);
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.seen);
  core_.backlog.Unlist(index);
  const auto rows = RowsIfLast(entry.key(), *entry.subscription);
  core_.states.MakeEnding(index, /*ends_message=*/rows.has_value());
  if (rows.has_value()) {
    storage::Tombstone tombstone;
    tombstone.state = how;
    tombstone.end_ms = now.wall_up_ms();  // as accept_ms is rounded
    if (dead_letter != storage::MessageId{}) tombstone.dead_letters.push_back(dead_letter);
    EndByLast(index, *rows, std::move(tombstone), durability);
  } else {
    SettleForOne(index, how, dead_letter);
  }
}

std::optional<ProgressRows> MessageEnds::RowsIfLast(const MessageKey& key,
                                                    const Subscription& subscription) {
  const Topic& topic = *subscription.topic;
  if (!topic.several) return ProgressRows();
  // Most settlements return from this loop, because another subscription has the message in memory
  // and has not settled it.
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    const PendingDelivery& entry = core_.table[i];
    // An entry at another place is a stale offer and does not count.
    if (entry.subscription == &subscription || entry.due_ms != key.due_ms) continue;
    // A deleted subscription drops its entries step by step, and none of them keeps the message.
    if (!entry.subscription->Covers(key.id)) continue;
    if (entry.state != EntryState::kEnding) return std::nullopt;
  }
  auto rows = core_.reader.Progress(key);
  if (!rows.ok()) return std::nullopt;
  for (const Subscription* const other : topic.subscriptions) {
    if (other == &subscription || !other->Covers(key.id)) continue;
    if (core_.table.FindAt(key, other) == kNoEntry && !rows->Settled(other->state.id)) {
      return std::nullopt;
    }
  }
  return *std::move(rows);
}

void MessageEnds::SettleForOne(EntryIndex index, EndState how, storage::MessageId dead_letter) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kEnding);
  DT_CHECK(!entry.ends_message);
  const Subscription& subscription = *entry.subscription;
  // The record must tell a later cancel that a subscriber received the message, or may have. A dead
  // letter counts, because a subscriber will receive it.
  const bool touched = entry.maybe_delivered || how == EndState::kDeadLettered;
  const uint32_t attempts = std::max(entry.attempts, touched ? 1u : 0u);
  if (subscription.state.deleting && attempts == 0) {
    if (entry.progress) {
      core_.records.RemoveProgress(entry.key(), subscription.state.id, Progress::State::kFailed);
    }
    return;
  }
  entry.progress = true;
  core_.records.PutProgress(
      entry.key(), subscription.state.id,
      {.state = Progress::State::kSettled, .attempts = attempts, .dead_letter = dead_letter});
}

void MessageEnds::NameDeadLetters(const MessageKey& key, const ProgressRows& rows,
                                  storage::Tombstone* tombstone) const {
  const auto add = [&letters = tombstone->dead_letters](const Progress& progress) {
    const storage::MessageId id = progress.dead_letter;
    if (id == storage::MessageId{} || letters.size() == storage::kDeadLettersNamedMax) return;
    if (std::find(letters.begin(), letters.end(), id) == letters.end()) letters.push_back(id);
  };
  for (const auto& [id, progress] : rows) add(progress);
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    const Progress* const uncommitted =
        core_.records.Uncommitted(key, core_.table[i].subscription->state.id);
    if (uncommitted != nullptr) add(*uncommitted);
  }
}

void MessageEnds::EndByLast(EntryIndex index, const ProgressRows& rows,
                            storage::Tombstone tombstone, Durability durability) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kEnding);
  DT_CHECK(entry.ends_message);
  DT_CHECK(entry.seen);
  const Topic& topic = *entry.subscription->topic;
  if (topic.several) NameDeadLetters(entry.key(), rows, &tombstone);
  RemoveProgress(entry.key(), rows);
  tombstone.topic = topic.id;
  tombstone.attempts = entry.attempts;
  for (const auto& [id, progress] : rows) {
    tombstone.attempts = std::max(tombstone.attempts, progress.attempts);
  }
  tombstone.payload_bytes = entry.payload_bytes;
  tombstone.deliver_ms = entry.deliver_ms;
  tombstone.accept_ms = entry.accept_ms;
  tombstone.fire_ms = entry.fire_ms;
  tombstone.dispatch_ms = entry.dispatch_ms;
  if (const EntryDetails* const details = core_.table.DetailsOf(index); details != nullptr) {
    tombstone.key = details->key;
    tombstone.revision = details->revision;
  }
  absl::Status status =
      endings_.Write(entry.key(), entry.record_bytes, topic.tombstone_retention_ms,
                     std::move(tombstone), durability);
  if (!status.ok()) core_.reader.Fail(status);
}

void MessageEnds::RemoveProgress(const MessageKey& key, const ProgressRows& rows) {
  // Memory knows more than the store: a settlement may not be committed yet.
  states_.clear();
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    const PendingDelivery& entry = core_.table[i];
    if (entry.due_ms != key.due_ms) continue;
    const storage::SubscriptionId id = entry.subscription->state.id;
    const bool settling = entry.state == EntryState::kEnding && !entry.ends_message;
    const auto state = settling ? Progress::State::kSettled : Progress::State::kFailed;
    states_.emplace_back(id, state);
    if (entry.progress && rows.Find(id) == nullptr) core_.records.RemoveProgress(key, id, state);
  }
  std::sort(states_.begin(), states_.end());
  for (const auto& [id, progress] : rows) {
    const auto known = std::lower_bound(states_.begin(), states_.end(), id,
                                        [](const auto& one, auto of) { return one.first < of; });
    const bool in_memory = known != states_.end() && known->first == id;
    auto state = in_memory ? known->second : progress.state;
    // What a deleted subscription was done with is erased.
    if (state == Progress::State::kSettled && core_.subscriptions.Find(id) == nullptr) {
      state = Progress::State::kFailed;
    }
    core_.records.RemoveProgress(key, id, state);
  }
}

void MessageEnds::Finish(EntryIndex index) {
  const protocol::StreamId stream = core_.table[index].stream;
  const uint32_t bytes = core_.table[index].bytes;
  core_.states.Remove(index);
  if (stream != protocol::StreamId{}) core_.streams.ReturnCredit(stream, 1, bytes);
}

void MessageEnds::Drop(base::Now now, EntryIndex index) {
  BeginSettle(now, index, EndState::kDropped, Durability::kBuffered);
  ++core_.stats.dropped;
  core_.writes.Then([this, index](base::Now, bool accepted) {
    if (!accepted) return;
    DT_CHECK(core_.table[index].state == EntryState::kEnding);
    Finish(index);
  });
}

void MessageEnds::DropStale(EntryIndex index) {
  core_.states.TakeOut(index);
  core_.backlog.Unlist(index);
  Finish(index);
}

// ---- For all subscriptions

bool MessageEnds::AnyEnding(const storage::MessageId& id) const {
  for (EntryIndex i = core_.table.Find(id); i != kNoEntry; i = core_.table[i].sibling) {
    if (core_.table[i].state == EntryState::kEnding) return true;
  }
  return false;
}

bool MessageEnds::OnlySettling(const MessageKey& key) const {
  bool settling = false;
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    const PendingDelivery& entry = core_.table[i];
    if (entry.due_ms != key.due_ms || entry.state != EntryState::kEnding) continue;
    if (entry.ends_message) return false;
    settling = true;
  }
  return settling;
}

bool MessageEnds::MessageEnding(const MessageKey& key) const {
  for (EntryIndex i = core_.table.Find(key.id); i != kNoEntry; i = core_.table[i].sibling) {
    if (core_.table[i].state == EntryState::kEnding && core_.table[i].ends_message) return true;
  }
  return false;
}

absl::Status MessageEnds::BeginEnd(base::Now now, const MessageEnd& end) {
  DT_CHECK(end.record != nullptr);
  DT_CHECK(end.status != nullptr);
  DT_CHECK_GT(end.bytes, 0u);
  const MessageKey& key = end.key;
  const storage::MessageRecord& record = *end.record;
  DT_CHECK(!AnyEnding(key.id));
  const Topic& topic = *core_.subscriptions.TopicOf(record.header.topic);
  storage::Tombstone tombstone;
  tombstone.state = end.how;
  tombstone.topic = topic.id;
  tombstone.attempts = end.status->attempts;
  tombstone.payload_bytes = end.payload_bytes;
  tombstone.deliver_ms = record.header.deliver_ms;
  tombstone.accept_ms = record.header.accept_ms;
  tombstone.end_ms = now.wall_up_ms();  // as accept_ms is rounded
  tombstone.revision = record.revision;
  tombstone.redelivery_stopped = end.redelivery_stopped;
  NameDeadLetters(key, end.status->rows, &tombstone);
  tombstone.key = std::string(record.key);
  if (const EntryIndex index = core_.table.FindAt(key); index != kNoEntry) {
    tombstone.fire_ms = core_.table[index].fire_ms;
    tombstone.dispatch_ms = core_.table[index].dispatch_ms;
  }
  BeginMove(key, topic, end.status->rows);
  return endings_.Write(key, end.bytes, topic.tombstone_retention_ms, std::move(tombstone),
                        end.durability);
}

void MessageEnds::BeginMove(const MessageKey& key, const Topic& topic, const ProgressRows& rows) {
  for (Subscription* const subscription : topic.subscriptions) {
    const EntryIndex index = core_.table.FindAt(key, subscription);
    if (index != kNoEntry) {
      core_.states.TakeOut(index);
      core_.states.MakeEnding(index, /*ends_message=*/true);
      core_.backlog.Unlist(index);
    } else if (subscription->backlog.any()) {
      UnlistUnseen(key, subscription, rows.Find(subscription->state.id));
    }
  }
  RemoveProgress(key, rows);
}

void MessageEnds::UnlistUnseen(const MessageKey& key, Subscription* subscription,
                               const Progress* row) {
  const MessageKey place = {.due_ms = row != nullptr && row->listed ? row->retry_ms : key.due_ms,
                            .id = key.id};
  core_.backlog.Unlist(place, *subscription);
  // The count needs a read, and only bounded subscriptions keep one.
  if (subscription->bounded() && !subscription->listed.Recall(key.id) &&
      core_.backlog.ListedAt(place, *subscription) == Listed::kYes) {
    subscription->listed.Taken(place);
  }
}

void MessageEnds::FinishAll(const MessageKey& key) {
  EntryIndex index = core_.table.Find(key.id);
  while (index != kNoEntry) {
    const PendingDelivery& entry = core_.table[index];
    const EntryIndex next = entry.sibling;
    if (entry.due_ms == key.due_ms && entry.state == EntryState::kEnding) Finish(index);
    index = next;
  }
}

}  // namespace duetime::delivery
