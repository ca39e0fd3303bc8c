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
  if (!status.ok()) return finder_->ReadFailed(status);
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
  DT_CHECK(!locks_->ChangeInFlight(id));
  const uint64_t due_ms = scheduler_->PlaceOf(now, revision.deliver_ms);
  const MessageRef to = {.key = {.due_ms = due_ms, .id = id},
                         .topic = found.record.header.topic,
                         .bytes = static_cast<uint32_t>(revision.bytes.size()),
                         .flags = revision.flags};
  const bool was_loaded = scheduler_->Loaded(found.key);
  absl::Status status = dispatcher_->BeginMove(found.key, to.topic);
  if (!status.ok()) return finder_->ReadFailed(status);
  writer_->Erase(found.key, to.topic, static_cast<uint32_t>(found.bytes.size()),
                 Durability::kSynced);
  scheduler_->Put(now, to, std::move(revision.bytes));
  if (due_ms != id.due_ms()) {
    writer_->PutLocator(id, {.due_ms = due_ms, .tombstone = std::nullopt}, Durability::kSynced);
  }
  locks_->Lock(MessageLocks::Name(id));
  writes_->Then([this, from = found.key, was_loaded, to](base::Now then, bool ok) {
    if (ok) {
      ++stats_->rescheduled;
      dispatcher_->FinishAll(from);
      scheduler_->OnMoved(from.due_ms, was_loaded, to);
    }
    locks_->Unlock(then, MessageLocks::Name(to.key.id), ok);
  });
  return absl::OkStatus();
}

}  // namespace duetime::messages
