// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_changes.h"

#include <utility>

#include "server/base/check.h"

namespace duetime::messages {

using storage::Durability;
using storage::EndState;
using storage::MessageFlags;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;

MessageRevision::MessageRevision(storage::MessageRecord record, uint64_t update_ms)
    : deliver_ms(record.header.deliver_ms), flags(storage::MessageFlagsOf(record)) {
  ++record.revision;
  record.update_ms = update_ms;
  bytes = storage::EncodeMessageRecord(record);
}

MessageChanges::MessageChanges(const delivery::ShardParts& parts, scheduler::Scheduler* scheduler,
                               delivery::Dispatcher* dispatcher, MessageFinder* finder,
                               MessageLocks* locks)
    : writes_(parts.writes),
      writer_(parts.writer),
      stats_(parts.stats),
      occurrences_(parts.occurrences),
      scheduler_(scheduler),
      dispatcher_(dispatcher),
      finder_(finder),
      locks_(locks) {}

absl::Status MessageChanges::Cancel(base::Now now, const FoundMessage& found,
                                    bool redelivery_stopped) {
  // A message that a subscriber may have cannot be cancelled: only its redelivery stops (P3).
  DT_CHECK(redelivery_stopped || found.delivery.untouched());
  absl::Status status = End(now, found, EndState::kCancelled, redelivery_stopped);
  if (!status.ok()) return status;
  writes_->Then([this](base::Now, bool ok) {
    if (ok) ++stats_->cancelled;
  });
  const bool recurs = (found.record.header.flags & MessageFlags::kRecurs) != 0;
  if (recurs) occurrences_->OnOccurrenceCancelled(now, found.key.id);
  return absl::OkStatus();
}

absl::Status MessageChanges::End(base::Now now, const FoundMessage& found, EndState how,
                                 bool redelivery_stopped) {
  DT_CHECK(found.kind == FoundMessage::Kind::kPending);
  DT_CHECK(!locks_->ChangeInFlight(found.key.id));
  const MessageKey key = found.key;
  absl::Status status =
      dispatcher_->BeginEnd(now, {.key = key,
                                  .record = &found.record,
                                  .bytes = static_cast<uint32_t>(found.bytes.size()),
                                  .attempts = found.delivery.attempts,
                                  .how = how,
                                  .redelivery_stopped = redelivery_stopped,
                                  .durability = Durability::kSynced});
  if (!status.ok()) return finder_->StopShard(status);
  locks_->Lock(MessageLocks::Name(key.id));
  writes_->Then([this, key](base::Now then, bool ok) {
    if (ok) dispatcher_->FinishAll(key);
    locks_->Unlock(then, MessageLocks::Name(key.id), ok);
  });
  return absl::OkStatus();
}

absl::Status MessageChanges::Move(base::Now now, const FoundMessage& found,
                                  MessageRevision revision) {
  DT_CHECK(found.kind == FoundMessage::Kind::kPending);
  // A message that a subscriber may have must not move (P3).
  DT_CHECK(found.delivery.untouched());
  const MessageId id = found.key.id;
  const MessageRef to = {.key = {.due_ms = scheduler_->PlaceOf(now, revision.deliver_ms), .id = id},
                         .topic = found.record.header.topic,
                         .bytes = static_cast<uint32_t>(revision.bytes.size()),
                         .flags = revision.flags};
  if (found.uncommitted) {
    MoveAgain(now, found, to, std::move(revision.bytes));
    return absl::OkStatus();
  }
  DT_CHECK(!locks_->ChangeInFlight(id));
  MessageLocks::Move move = {.batch = writes_->open_sequence(),
                             .from = found.key,
                             .loaded = scheduler_->Loaded(found.key),
                             .restarts = scheduler_->restarts(),
                             .to = to,
                             .key_entry = std::nullopt,
                             .bytes = to.bytes};
  absl::Status status = dispatcher_->BeginMove(found.key, to.topic);
  if (!status.ok()) return finder_->StopShard(status);
  writer_->Erase(found.key, to.topic, static_cast<uint32_t>(found.bytes.size()),
                 Durability::kSynced);
  move.position = writes_->open_records().size();
  scheduler_->Put(now, to, std::move(revision.bytes));
  PutLocator(to.key);
  locks_->LockMoved(id, move);
  writes_->Then([this, id](base::Now then, bool ok) { FinishMove(then, id, ok); });
  return absl::OkStatus();
}

void MessageChanges::MoveAgain(base::Now now, const FoundMessage& found, const MessageRef& to,
                               std::string record) {
  MessageLocks::Move* const move = locks_->FindOpenMove(to.key.id);
  DT_CHECK(move != nullptr);
  DT_CHECK(move->to.key == found.key);
  scheduler_->Put(now, to, std::move(record), /*replaces=*/move->position);
  PutLocator(to.key);
  move->to = to;
  ++move->changes;
  move->bytes += to.bytes;
}

void MessageChanges::PutLocator(const MessageKey& key) {
  if (key.due_ms == key.id.due_ms()) return;
  writer_->PutLocator(key.id, {.due_ms = key.due_ms, .tombstone = std::nullopt},
                      Durability::kSynced);
}

void MessageChanges::FinishMove(base::Now now, const MessageId& id, bool ok) {
  const MessageLocks::Move move = locks_->EndMove(id);
  if (ok) {
    stats_->rescheduled += move.changes;
    stats_->merged += move.changes - 1;
    dispatcher_->FinishAll(move.from);
    // The places between the first and the last one were never in the store.
    scheduler_->OnMoved(move.from.due_ms, move.loaded && move.restarts == scheduler_->restarts(),
                        move.to);
  }
  locks_->Unlock(now, MessageLocks::Name(id), ok);
}

}  // namespace duetime::messages
