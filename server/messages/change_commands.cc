// SPDX-License-Identifier: Apache-2.0
#include "server/messages/change_commands.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/messages/message_states.h"
#include "server/protocol/etag.h"
#include "server/protocol/reply_to.h"

namespace duetime::messages {

using protocol::CancelCommand;
using protocol::CancelReply;
using protocol::Outcome;
using protocol::ReplyTo;
using protocol::RescheduleCommand;
using protocol::RescheduleReply;
using scheduler::Scheduler;
using storage::MessageId;

namespace {

uint64_t CurrentEtag(const FoundMessage& found) {
  return protocol::EtagOf(found.key.id, found.record.revision);
}

absl::Status EtagError(const FoundMessage& found) {
  return base::MakeError(absl::StatusCode::kAborted,
                         "the message was changed since this etag was given",
                         {.reason = "ETAG_MISMATCH",
                          .field = "etag",
                          .metadata = {{"message_id", found.key.id.ToString()},
                                       {"etag", absl::StrCat(CurrentEtag(found))}},
                          .retry_after_ms = 0});
}

// Sets the part of the answer that both calls take from the state of the message.
template <typename Reply>
void FillOutcome(const FoundMessage& found, Reply* reply) {
  switch (found.kind) {
    case FoundMessage::Kind::kUnknown:
      reply->outcome = Outcome::kNotFound;
      break;
    case FoundMessage::Kind::kEnded:
      reply->state = StateOf(found.tombstone.state);
      reply->outcome = OutcomeOf(found.tombstone.state);
      reply->end_ms = found.tombstone.end_ms;
      break;
    case FoundMessage::Kind::kPending:
      reply->state = found.delivery.state;
      reply->outcome = found.delivery.untouched() ? Outcome::kDone : Outcome::kInFlight;
      reply->delivery_uncertain = found.delivery.uncertain;
      break;
  }
}

}  // namespace

ChangeCommands::ChangeCommands(const delivery::Core& core, MessageFinder* finder,
                               MessageLocks* locks, MessageChanges* changes)
    : core_(core), finder_(finder), locks_(locks), changes_(changes) {}

void ChangeCommands::Cancel(base::Now now, CancelCommand command) {
  Run(now, std::move(command), &ChangeCommands::DecideCancel);
}

void ChangeCommands::Reschedule(base::Now now, RescheduleCommand command) {
  Run(now, std::move(command), &ChangeCommands::DecideReschedule);
}

template <typename Command, typename Reply>
void ChangeCommands::Run(base::Now now, Command command,
                         bool (ChangeCommands::*decide)(base::Now, const Command&, Reply*)) {
  auto target = finder_->Resolve(now, command.target);
  if (target.ok() && target->wait_for.has_value()) {
    locks_->Wait(*target->wait_for,
                 [this, command = std::move(command), decide](base::Now later, bool ok) mutable {
                   if (!ok) return core_.Answer(ReplyTo(command, base::StorageFailedError()));
                   Run(later, std::move(command), decide);
                 });
    return;
  }
  Reply reply = ReplyTo(command);
  reply.outcome = Outcome::kNotFound;
  reply.status = target.status();
  if (target.ok()) reply.id = target->id;
  if (!target.ok() || !(this->*decide)(now, command, &reply)) {
    core_.Answer(std::move(reply));
  } else {
    core_.AnswerAfterCommit(std::move(reply));
  }
}

bool ChangeCommands::DecideCancel(base::Now now, const CancelCommand& command, CancelReply* reply) {
  DT_CHECK(reply->status.ok());
  FoundMessage found;
  reply->status = finder_->FindToEnd(now, command.target, reply->id, &found);
  const bool pending = reply->status.ok() && found.kind == FoundMessage::Kind::kPending;
  if (pending) reply->status = finder_->Examine(now, &found);
  FillOutcome(found, reply);
  if (!pending) {
    reply->redelivery_stopped = found.tombstone.redelivery_stopped;
    return false;
  }
  DT_CHECK(found.key.id == reply->id);
  const bool untouched = found.delivery.untouched();
  if (!reply->status.ok() || (!untouched && !command.stop_redelivery)) return false;
  reply->redelivery_stopped = !untouched;
  reply->status = changes_->Cancel(now, found, reply->redelivery_stopped);
  DT_CHECK(!reply->status.ok() || locks_->ChangeInFlight(reply->id));
  return true;
}

bool ChangeCommands::DecideReschedule(base::Now now, const RescheduleCommand& command,
                                      RescheduleReply* reply) {
  DT_CHECK(reply->status.ok());
  FoundMessage found;
  reply->status = finder_->FindFor(now, command.target, reply->id, &found);
  const bool pending = reply->status.ok() && found.kind == FoundMessage::Kind::kPending;
  if (pending) reply->status = finder_->Examine(now, &found);
  FillOutcome(found, reply);
  if (!pending || !reply->status.ok() || !found.delivery.untouched()) return false;
  if (command.etag.has_value() && *command.etag != CurrentEtag(found)) {
    reply->status = EtagError(found);
    return false;
  }
  DT_CHECK(found.key.id == reply->id);
  reply->status = ApplyReschedule(now, command, found, reply);
  // The message is not locked if it has the time already. A later answer might come after its
  // delivery.
  return locks_->ChangeInFlight(reply->id);
}

absl::Status ChangeCommands::ApplyReschedule(base::Now now, const RescheduleCommand& command,
                                             const FoundMessage& found, RescheduleReply* reply) {
  DT_CHECK(found.delivery.untouched());
  const MessageId& id = found.key.id;
  storage::MessageRecord record = found.record;
  reply->old_deliver_ms = record.header.deliver_ms;
  record.header.deliver_ms =
      command.deliver_ms + Scheduler::SpreadPoint(id.epoch(), id.sequence(), record.spread_ms);
  record.civil_time = command.civil_time;
  record.time_zone = command.time_zone;
  reply->state = StateAt(record.header.deliver_ms, now);
  const bool changes = record.header.deliver_ms != reply->old_deliver_ms ||
                       record.civil_time != found.record.civil_time ||
                       record.time_zone != found.record.time_zone;
  absl::string_view head;
  if (!changes) {
    reply->bytes = static_cast<uint32_t>(found.bytes.size());
    absl::Status status = storage::MessageHead(found.bytes, &head);
    reply->head = std::string(head);
    return status;
  }
  MessageRevision revision(std::move(record), now.wall_ms);
  reply->bytes = static_cast<uint32_t>(revision.bytes.size());
  DT_CHECK(storage::MessageHead(revision.bytes, &head).ok());
  reply->head = std::string(head);
  return changes_->Move(now, found, std::move(revision));
}

}  // namespace duetime::messages
