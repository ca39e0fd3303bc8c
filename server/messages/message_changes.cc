// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_changes.h"

#include <utility>

#include "server/base/check.h"
#include "server/delivery/subscriptions/subscriptions.h"

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

MessageChanges::MessageChanges(const delivery::Core& core, delivery::MessageEnds* ends,
                               MessageFinder* finder, MessageLocks* locks)
    : core_(core), ends_(ends), finder_(finder), locks_(locks) {}

absl::Status MessageChanges::Cancel(base::Now now, const FoundMessage& found,
                                    bool redelivery_stopped) {
  // A message that a subscriber may have cannot be cancelled: only its redelivery stops (P3).
  DT_CHECK(redelivery_stopped || found.delivery.untouched());
  absl::Status status = End(now, found, EndState::kCancelled, redelivery_stopped);
  if (!status.ok()) return status;
  const storage::TopicId topic = found.record.header.topic;
  core_.writes.Then([this, topic, unread = found.recent.has_value()](base::Now, bool ok) {
    if (!ok) return;
    ++core_.stats.cancelled;
    ++core_.subscriptions.ActivityOf(topic).cancelled;
    if (unread) ++core_.stats.cancelled_unread;
  });
  const bool recurs = (found.record.header.flags & MessageFlags::kRecurs) != 0;
  if (recurs) core_.occurrences->OnOccurrenceCancelled(now, found.key.id);
  return absl::OkStatus();
}

absl::Status MessageChanges::End(base::Now now, const FoundMessage& found, EndState how,
                                 bool redelivery_stopped) {
  DT_CHECK(found.kind == FoundMessage::Kind::kPending);
  DT_CHECK(!found.uncommitted);
  const MessageKey key = found.key;
  absl::Status status = ends_->BeginEnd(now, {.key = key,
                                              .record = &found.record,
                                              .payload_bytes = found.payload_bytes(),
                                              .bytes = found.record_bytes(),
                                              .status = &found.delivery,
                                              .how = how,
                                              .redelivery_stopped = redelivery_stopped,
                                              .durability = Durability::kSynced});
  if (!status.ok()) return finder_->StopShard(status);
  locks_->Lock(MessageLocks::Name(key.id));
  core_.writes.Then([this, key](base::Now then, bool ok) {
    if (ok) ends_->FinishAll(key);
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
  const MessageRef to = {
      .key = {.due_ms = core_.scheduler.PlaceOf(now, revision.deliver_ms), .id = id},
      .topic = found.record.header.topic,
      .bytes = static_cast<uint32_t>(revision.bytes.size()),
      .flags = revision.flags};
  if (found.uncommitted) {
    MoveAgain(now, found, to, std::move(revision.bytes));
    return absl::OkStatus();
  }
  DT_CHECK(!locks_->ChangeInFlight(id));
  MessageLocks::Move move = {.batch = core_.writes.open_sequence(),
                             .from = found.key,
                             .loaded = core_.scheduler.Loaded(found.key),
                             .restarts = core_.scheduler.restarts(),
                             .to = to,
                             .key_entry = std::nullopt,
                             .bytes = to.bytes};
  ends_->BeginMove(found.key, *core_.subscriptions.TopicOf(to.topic), found.delivery.rows);
  core_.writer.Erase(found.key, to.topic, static_cast<uint32_t>(found.bytes.size()),
                     Durability::kSynced);
  move.position = core_.writes.open_records().size();
  core_.scheduler.Put(now, to, std::move(revision.bytes));
  DT_CHECK(core_.writes.open_records().at(move.position).key == to.key);
  PutLocator(to.key);
  locks_->LockMoved(id, move);
  core_.writes.Then([this, id](base::Now then, bool ok) { FinishMove(then, id, ok); });
  return absl::OkStatus();
}

void MessageChanges::MoveAgain(base::Now now, const FoundMessage& found, const MessageRef& to,
                               std::string record) {
  MessageLocks::Move* const move = locks_->FindOpenMove(to.key.id);
  DT_CHECK(move != nullptr);
  DT_CHECK(move->to.key == found.key);
  core_.scheduler.Put(now, to, std::move(record), /*replaces=*/move->position);
  PutLocator(to.key);
  move->to = to;
  ++move->changes;
  move->bytes += to.bytes;
}

void MessageChanges::PutLocator(const MessageKey& key) {
  if (key.due_ms == key.id.due_ms()) return;
  core_.writer.PutLocator(key.id, {.due_ms = key.due_ms, .tombstone = std::nullopt},
                          Durability::kSynced);
}

void MessageChanges::FinishMove(base::Now now, const MessageId& id, bool ok) {
  const MessageLocks::Move move = locks_->EndMove(id);
  DT_CHECK_GT(move.changes, 0u);
  DT_CHECK(move.from.id == id && move.to.key.id == id);
  if (ok) {
    core_.stats.rescheduled += move.changes;
    core_.stats.merged += move.changes - 1;
    ends_->FinishAll(move.from);
    // The places between the first and the last one were never in the store.
    core_.scheduler.OnMoved(move.from.due_ms,
                            move.loaded && move.restarts == core_.scheduler.restarts(), move.to);
  }
  locks_->Unlock(now, MessageLocks::Name(id), ok);
}

}  // namespace duetime::messages
