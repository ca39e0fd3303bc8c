// SPDX-License-Identifier: Apache-2.0
//
// The part of Desk that cancels and moves messages.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/delivery/dead_letter.h"
#include "server/delivery/desk.h"
#include "server/delivery/desk_put_off.h"

namespace duetime::delivery {

using scheduler::Scheduler;
using storage::Durability;
using storage::EndState;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;

void Desk::Cancel(base::Now now, CancelCommand command) {
  CancelReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  MessageId id;
  if (PutOff(now, &command, &Desk::Cancel, &id, &reply.status)) return;
  Found found;
  if (reply.status.ok()) reply.status = Locate(now, id, &found);
  reply.id = id;
  reply.outcome = Outcome::kNotFound;
  if (reply.status.ok() && found.what == Found::What::kPending) {
    CancelFound(now, command, std::move(found), std::move(reply));
    return;
  }
  if (reply.status.ok() && found.what == Found::What::kEnded) {
    reply.state = StateOf(found.fate.state);
    reply.outcome =
        found.fate.state == EndState::kCancelled ? Outcome::kAlreadyCancelled : Outcome::kSettled;
    reply.end_ms = found.fate.end_ms;
    reply.redelivery_stopped = found.fate.redelivery_stopped;
  }
  effects_->cancels.push_back(std::move(reply));
}

void Desk::CancelFound(base::Now now, const CancelCommand& command, Found found,
                       CancelReply reply) {
  Standing standing;
  reply.status = StandingOf(now, found, &standing);
  if (reply.status.ok()) reply.status = storage::DecodeMessageRecord(found.record, &decoded_);
  reply.state = standing.state;
  reply.outcome = standing.untouched() ? Outcome::kDone : Outcome::kInFlight;
  reply.delivery_uncertain = standing.uncertain;
  if (!reply.status.ok() || (!standing.untouched() && !command.stop_redelivery)) {
    effects_->cancels.push_back(std::move(reply));
    return;
  }
  reply.redelivery_stopped = !standing.untouched();
  if (absl::Status status = CancelWhole(now, found, reply.redelivery_stopped); !status.ok()) {
    reply.status = ReadFailed(status);
  }
  outbox_->Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
    if (!ok) reply.status = base::StorageFailedError();
    effects_->cancels.push_back(std::move(reply));
  });
}

absl::Status Desk::CancelWhole(base::Now now, const Found& found, bool stopped) {
  const bool recurs = (decoded_.header.flags & storage::MessageFlags::kRecurs) != 0;
  if (absl::Status status = EndFound(now, found, EndState::kCancelled, stopped); !status.ok()) {
    return status;
  }
  outbox_->Then([this](base::Now, bool ok) {
    if (ok) ++stats_->cancelled;
  });
  if (recurs) occurrences_->OnOccurrenceCancelled(now, found.key.id);
  return absl::OkStatus();
}

absl::Status Desk::EndFound(base::Now now, const Found& found, EndState how, bool stopped) {
  const MessageKey key = found.key;
  if (absl::Status status =
          dispatcher_->BeginEnd(now, key, decoded_, static_cast<uint32_t>(found.record.size()), how,
                                stopped, Durability::kSynced);
      !status.ok()) {
    return status;
  }
  // Until the journal has it the message may become due or be read back: it is not to be taken up
  // any more.
  Latch(key.id);
  outbox_->Then([this, key](base::Now then, bool ok) {
    if (ok) dispatcher_->FinishWhole(key);
    Unlatch(then, key.id, ok);
  });
  return absl::OkStatus();
}

absl::Status Desk::FindPending(base::Now now, const MessageId& id, Found* found, Standing* standing,
                               bool* pending) {
  absl::Status status = Locate(now, id, found);
  if (!status.ok() || found->what != Found::What::kPending) return status;
  status = StandingOf(now, *found, standing);
  if (status.ok()) status = storage::DecodeMessageRecord(found->record, &decoded_);
  // A damaged record is left alone.
  if (absl::IsDataLoss(status)) return absl::OkStatus();
  *pending = status.ok();
  return status;
}

absl::Status Desk::CancelQuietly(base::Now now, const MessageId& id, bool stop, bool* changed) {
  *changed = false;
  Found found;
  Standing standing;
  bool pending = false;
  absl::Status status = FindPending(now, id, &found, &standing, &pending);
  if (!pending || (!standing.untouched() && !stop)) return status;
  *changed = true;
  return CancelWhole(now, found, !standing.untouched());
}

absl::Status Desk::MoveQuietly(base::Now now, const MessageId& id, uint64_t deliver_ms,
                               uint64_t since_ms, bool* changed) {
  *changed = false;
  Found found;
  Standing standing;
  bool pending = false;
  absl::Status status = FindPending(now, id, &found, &standing, &pending);
  if (!pending || !standing.untouched()) return status;
  *changed = true;
  decoded_.civil_time = decoded_.time_zone = {};
  std::string record = WithTime(std::max(now.wall_ms, since_ms), deliver_ms);
  return Move(now, found, deliver_ms, std::move(record), decoded_.header.flags);
}

absl::Status Desk::RedriveQuietly(base::Now now, const MessageId& id, bool* changed) {
  *changed = false;
  Found found;
  Standing standing;
  bool pending = false;
  absl::Status status = FindPending(now, id, &found, &standing, &pending);
  if (!pending || standing.in_flight) return status;
  auto again = MakeRedriven(found.record, now.wall_ms);
  if (!again.ok()) return absl::OkStatus();  // not a dead letter
  const TopicQuota* const quota = writer_->QuotaOf(again->topic);
  if (quota != nullptr && !quota->HasRoom()) return absl::OkStatus();
  storage::MessageHeader header;
  status = storage::DecodeMessageHeader(again->record, &header);
  if (!status.ok()) return status;
  const MessageRef to = {.key = scheduler_->NewKey(now, id.slot(), now.wall_ms, /*spread_ms=*/0),
                         .topic = again->topic,
                         .bytes = static_cast<uint32_t>(again->record.size()),
                         .flags = header.flags};
  status = EndFound(now, found, EndState::kAcked, /*stopped=*/false);
  if (!status.ok()) return status;
  *changed = true;
  scheduler_->Put(now, to, std::move(again->record));
  outbox_->Then([this, to](base::Now, bool ok) {
    if (ok) scheduler_->OnPut(to);
  });
  return absl::OkStatus();
}

std::string Desk::WithTime(uint64_t update_ms, uint64_t deliver_ms) {
  decoded_.header.deliver_ms = deliver_ms;
  ++decoded_.revision;
  decoded_.update_ms = update_ms;
  return storage::EncodeMessageRecord(decoded_);
}

void Desk::Reschedule(base::Now now, RescheduleCommand command) {
  RescheduleReply reply;
  reply.tag = command.tag;
  MessageId id;
  if (PutOff(now, &command, &Desk::Reschedule, &id, &reply.status)) return;
  Found found;
  if (reply.status.ok()) reply.status = Locate(now, id, &found);
  reply.id = id;
  reply.outcome = Outcome::kNotFound;
  if (reply.status.ok() && found.what == Found::What::kPending) {
    RescheduleFound(now, command, std::move(found), std::move(reply));
    return;
  }
  if (reply.status.ok() && found.what == Found::What::kEnded) {
    reply.state = StateOf(found.fate.state);
    reply.outcome =
        found.fate.state == EndState::kCancelled ? Outcome::kAlreadyCancelled : Outcome::kSettled;
    reply.end_ms = found.fate.end_ms;
  }
  effects_->reschedules.push_back(std::move(reply));
}

void Desk::RescheduleFound(base::Now now, const RescheduleCommand& command, Found found,
                           RescheduleReply reply) {
  Standing standing;
  reply.status = StandingOf(now, found, &standing);
  if (reply.status.ok()) reply.status = storage::DecodeMessageRecord(found.record, &decoded_);
  reply.state = standing.state;
  reply.delivery_uncertain = standing.uncertain;
  reply.outcome = standing.untouched() ? Outcome::kDone : Outcome::kInFlight;
  if (reply.status.ok() && standing.untouched() && command.revision.has_value() &&
      *command.revision != decoded_.revision) {
    reply.status = base::MakeError(absl::StatusCode::kAborted,
                                   "the message was changed since this etag was given",
                                   {.reason = "ETAG_MISMATCH",
                                    .field = "etag",
                                    .metadata = {{"message_id", found.key.id.ToString()},
                                                 {"etag", absl::StrCat(decoded_.revision)}},
                                    .retry_after_ms = 0});
  }
  if (!reply.status.ok() || !standing.untouched()) {
    effects_->reschedules.push_back(std::move(reply));
    return;
  }
  const MessageId& id = found.key.id;
  const uint64_t deliver_ms =
      command.deliver_ms + Scheduler::SpreadPoint(id.epoch(), id.sequence(), decoded_.spread_ms);
  reply.old_deliver_ms = decoded_.header.deliver_ms;
  const bool moves = deliver_ms != decoded_.header.deliver_ms ||
                     decoded_.civil_time != command.civil_time ||
                     decoded_.time_zone != command.time_zone;
  std::string record = found.record;
  if (moves) {
    decoded_.civil_time = command.civil_time;
    decoded_.time_zone = command.time_zone;
    record = WithTime(now.wall_ms, deliver_ms);
  }
  reply.state = deliver_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
  reply.bytes = static_cast<uint32_t>(record.size());
  absl::string_view head;
  reply.status = storage::MessageHead(record, &head);
  reply.head = std::string(head);
  if (moves) {
    const absl::Status status =
        Move(now, found, deliver_ms, std::move(record), decoded_.header.flags);
    if (!status.ok()) reply.status = ReadFailed(status);
  }
  outbox_->Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
    if (!ok) reply.status = base::StorageFailedError();
    effects_->reschedules.push_back(std::move(reply));
  });
}

absl::Status Desk::Move(base::Now now, const Found& found, uint64_t deliver_ms, std::string record,
                        uint8_t flags) {
  const MessageId id = found.key.id;
  const uint64_t due_ms = scheduler_->PlaceOf(now, deliver_ms);
  const MessageRef to = {.key = {.due_ms = due_ms, .id = id},
                         .topic = decoded_.header.topic,
                         .bytes = static_cast<uint32_t>(record.size()),
                         .flags = flags};
  const bool was_loaded = scheduler_->Loaded(found.key);
  if (absl::Status status = dispatcher_->BeginMove(found.key, to.topic); !status.ok()) {
    return status;
  }
  writer_->Erase(found.key, to.topic, static_cast<uint32_t>(found.record.size()),
                 Durability::kSynced);
  scheduler_->Put(now, to, std::move(record));
  if (due_ms != id.due_ms()) {
    writer_->PutTrace(id, {.due_ms = due_ms, .fate = std::nullopt}, Durability::kSynced);
  }
  Latch(id);
  outbox_->Then([this, from = found.key, was_loaded, to](base::Now then, bool ok) {
    if (ok) {
      ++stats_->rescheduled;
      dispatcher_->FinishWhole(from);
      scheduler_->OnMoved(from.due_ms, was_loaded, to);
    }
    Unlatch(then, to.key.id, ok);
  });
  return absl::OkStatus();
}

}  // namespace duetime::delivery
