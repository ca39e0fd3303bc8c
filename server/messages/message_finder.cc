// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_finder.h"

#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/messages/message_states.h"
#include "server/protocol/topic_scope.h"
#include "server/scheduler/message_writer.h"
#include "server/scheduler/scheduler.h"

namespace duetime::messages {

using delivery::DeliveryStatus;
using storage::IndexEntry;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;

MessageFinder::MessageFinder(const delivery::Core& core, delivery::MessageStatus* status,
                             const MessageLocks* locks, const KeyIndex* index)
    : core_(core), status_(status), locks_(locks), index_(index) {}

absl::Status MessageFinder::ReadFailed(const absl::Status& status) {
  DT_CHECK(!status.ok());
  return storage::IsDamage(status) ? status : StopShard(status);
}

absl::Status MessageFinder::StopShard(const absl::Status& status) {
  DT_CHECK(!status.ok());
  core_.reader.Fail(status);
  return base::StorageFailedError();
}

absl::StatusOr<IndexEntry> MessageFinder::FindName(base::Now now, storage::TopicId topic,
                                                   IndexKind kind, absl::string_view name) {
  absl::StatusOr<IndexEntry> entry = index_->Find(now, topic, kind, name);
  if (!entry.ok()) return ReadFailed(entry.status());
  return entry;
}

absl::StatusOr<ResolvedTarget> MessageFinder::Resolve(base::Now now,
                                                      const protocol::Target& target) {
  ResolvedTarget resolved{.id = target.id, .wait_for = std::nullopt};
  if (!target.key.empty()) {
    const MessageLocks::Name name = MessageLocks::KeyName(target.topic, target.key);
    if (locks_->Locked(name)) {
      resolved.wait_for = name;
    } else {
      auto entry = FindName(now, target.topic, IndexKind::kUserKey, target.key);
      if (!entry.ok()) return entry.status();
      resolved.id = entry->id;
    }
  }
  if (!resolved.wait_for.has_value() && locks_->ChangeInFlight(resolved.id)) {
    resolved.wait_for = MessageLocks::Name(resolved.id);
  }
  if (!resolved.wait_for.has_value()) return resolved;
  if (absl::Status status = locks_->CheckRoom(); !status.ok()) return status;
  return resolved;
}

absl::Status MessageFinder::ReadAt(const MessageKey& key, FoundMessage* found) {
  DT_CHECK(found->kind == FoundMessage::Kind::kUnknown);
  auto record = core_.store.Get(core_.shard, key);
  if (!record.ok()) return ReadFailed(record.status());
  if (!record->has_value()) return absl::OkStatus();
  found->kind = FoundMessage::Kind::kPending;
  found->key = key;
  found->bytes = *std::move(*record);
  return storage::DecodeMessageHeader(found->bytes, &found->record.header);
}

absl::Status MessageFinder::Find(base::Now now, const MessageId& id, FoundMessage* found) {
  DT_CHECK(found->kind == FoundMessage::Kind::kUnknown);
  DT_CHECK(!locks_->ChangeInFlight(id));
  // The id is empty, or no shard has given it yet.
  if (id == MessageId{} || id.epoch() > core_.scheduler.epoch()) return absl::OkStatus();
  if (const delivery::EntryIndex index = core_.table.Find(id); index != delivery::kNoEntry) {
    // The entry may be stale: the message was moved from its place, or has ended.
    absl::Status status = ReadAt(core_.table[index].key(), found);
    if (!status.ok() || found->kind == FoundMessage::Kind::kPending) return status;
  }
  if (absl::Status status = ReadAt({.due_ms = id.due_ms(), .id = id}, found); !status.ok()) {
    return status;
  }
  if (found->kind == FoundMessage::Kind::kPending) return absl::OkStatus();
  auto locator = core_.store.GetLocator(core_.shard, id);
  if (!locator.ok()) return ReadFailed(locator.status());
  if (!locator->has_value()) return absl::OkStatus();
  std::optional<storage::Tombstone>& tombstone = (*locator)->tombstone;
  if (!tombstone.has_value()) return ReadAt({.due_ms = (*locator)->due_ms, .id = id}, found);
  if (tombstone->expire_ms <= now.wall_ms) return absl::OkStatus();
  if (index_->OfFormerTopic(tombstone->topic, id)) return absl::OkStatus();
  found->kind = FoundMessage::Kind::kEnded;
  found->tombstone = *std::move(tombstone);
  return absl::OkStatus();
}

absl::Status MessageFinder::FindFor(base::Now now, const protocol::Target& target,
                                    const MessageId& id, FoundMessage* found) {
  absl::Status status = Find(now, id, found);
  if (status.ok()) HideIfOutOfScope(target, found);
  return status;
}

absl::Status MessageFinder::FindToEnd(base::Now now, const protocol::Target& target,
                                      const MessageId& id, FoundMessage* found) {
  DT_CHECK(found->kind == FoundMessage::Kind::kUnknown);
  const scheduler::RecentMessages::Entry* const recent = core_.writer.recent().Find(id);
  if (recent == nullptr) return FindFor(now, target, id, found);
  DT_CHECK(!locks_->ChangeInFlight(id));
  found->kind = FoundMessage::Kind::kPending;
  found->key = {.due_ms = id.due_ms(), .id = id};
  found->recent = *recent;
  found->record.header = {
      .topic = recent->topic, .deliver_ms = id.due_ms(), .accept_ms = recent->accept_ms};
  HideIfOutOfScope(target, found);
  return absl::OkStatus();
}

void MessageFinder::HideIfOutOfScope(const protocol::Target& target, FoundMessage* found) {
  if (target.scope == nullptr || found->kind == FoundMessage::Kind::kUnknown) return;
  const bool ended = found->kind == FoundMessage::Kind::kEnded;
  const storage::TopicId topic = ended ? found->tombstone.topic : found->record.header.topic;
  if (target.scope->Covers(topic)) return;
  found->kind = FoundMessage::Kind::kUnknown;
  found->tombstone = {};
}

void MessageFinder::FindMoved(const MessageLocks::Move& move, FoundMessage* found) const {
  DT_CHECK(found->kind == FoundMessage::Kind::kUnknown);
  found->kind = FoundMessage::Kind::kPending;
  found->uncommitted = true;
  found->key = move.to.key;
  found->bytes = std::string(locks_->RecordOf(move));
  DT_CHECK(storage::DecodeMessageHeader(found->bytes, &found->record.header).ok());
}

absl::Status MessageFinder::DeliveryStatusOf(base::Now now, const FoundMessage& found,
                                             DeliveryStatus* delivery,
                                             std::vector<protocol::SubscriptionStatus>* list) {
  DT_CHECK(found.kind == FoundMessage::Kind::kPending);
  const storage::MessageHeader& header = found.record.header;
  const bool due = header.deliver_ms <= now.wall_ms;
  auto read = status_->StatusOf(now, found.key, *core_.subscriptions.TopicOf(header.topic),
                                due ? list : nullptr);
  if (!read.ok()) return ReadFailed(read.status());
  *delivery = *std::move(read);
  delivery->state =
      delivery->in_flight ? protocol::MessageState::kInFlight : StateAt(header.deliver_ms, now);
  return absl::OkStatus();
}

absl::Status MessageFinder::Examine(base::Now now, FoundMessage* found) {
  DT_CHECK(found->kind == FoundMessage::Kind::kPending);
  if (found->uncommitted) {
    // It was untouched when it was moved, and its lock keeps it so.
    absl::Status status = storage::DecodeMessageRecord(found->bytes, &found->record);
    if (status.ok()) found->delivery.state = StateAt(found->record.header.deliver_ms, now);
    return status;
  }
  absl::Status status = DeliveryStatusOf(now, *found, &found->delivery, nullptr);
  if (!status.ok() || found->recent.has_value()) return status;
  return storage::DecodeMessageRecord(found->bytes, &found->record);
}

}  // namespace duetime::messages
