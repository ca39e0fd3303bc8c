// SPDX-License-Identifier: Apache-2.0
#include "server/messages/schedule_commands.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/messages/message_states.h"
#include "server/messages/schedule_errors.h"
#include "server/scheduler/message_writer.h"

namespace duetime::messages {

using protocol::AcceptedMessage;
using protocol::NewMessage;
using protocol::OnConflict;
using protocol::ScheduleOptions;
using protocol::ScheduleOutcome;
using scheduler::Scheduler;
using storage::IndexEntry;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageRef;

namespace {

// Whether the message is due at another time than the request asks for. Only a local time needs
// this, and it means the same time in each repeat.
bool IsOtherTime(uint64_t deliver_ms, const NewMessage& message) {
  const uint64_t asked_ms = message.deliver_ms;
  return deliver_ms < asked_ms || deliver_ms > asked_ms + message.options->spread_ms;
}

}  // namespace

ScheduleCommands::ScheduleCommands(const delivery::Core& core, MessageFinder* finder,
                                   MessageLocks* locks, KeyIndex* index, MessageChanges* changes,
                                   const MinuteLimits* minute_limits)
    : core_(core),
      finder_(finder),
      locks_(locks),
      index_(index),
      changes_(changes),
      minute_limits_(minute_limits),
      creator_(core, minute_limits) {}

void ScheduleCommands::Schedule(base::Now now, protocol::ScheduleCommand command) {
  Round round{.call = std::make_shared<Call>(), .created = {}, .locked = {}};
  round.call->reply.tag = command.tag;
  round.call->reply.accepted.resize(command.messages.size());
  round.call->open = 1;
  round.created.reserve(command.messages.size());
  for (size_t i = 0; i < command.messages.size(); ++i) {
    Decide(now, i, &command.messages[i], /*waited=*/false, &round);
  }
  DT_CHECK_LE(round.created.size(), command.messages.size());
  Commit(std::move(round));
}

void ScheduleCommands::Commit(Round round) {
  DT_CHECK_GT(round.call->open, 0u);
  core_.writes.Then([this, round = std::move(round)](base::Now now, bool ok) {
    if (ok) creator_.OnCommitted(round.created);
    for (const MessageLocks::Name& name : round.locked) locks_->Unlock(now, name, ok);
    Finish(round.call.get(), ok);
  });
}

void ScheduleCommands::Finish(Call* call, bool ok) {
  DT_CHECK_GT(call->open, 0u);
  if (!ok) call->reply.status = base::StorageFailedError();
  if (--call->open > 0) return;
  if (!call->reply.status.ok()) call->reply.accepted.clear();
  core_.Answer(std::move(call->reply));
}

bool ScheduleCommands::WaitFor(const MessageLocks::Name& name, size_t position, NewMessage* message,
                               bool waited, Round* round) {
  // The call is not answered before this message is decided.
  DT_CHECK_GT(round->call->open, 0u);
  if (!waited) {
    absl::Status room = locks_->CheckRoom();
    if (!room.ok()) {
      round->call->reply.accepted[position].status = std::move(room);
      return true;
    }
    ++round->call->open;
  }
  auto decide = [this, call = round->call, position, message = std::move(*message)](
                    base::Now now, bool ok) mutable {
    if (!ok) return Finish(call.get(), false);
    Round again{.call = std::move(call), .created = {}, .locked = {}};
    if (Decide(now, position, &message, /*waited=*/true, &again)) Commit(std::move(again));
  };
  locks_->Wait(name, std::move(decide), MessageLocks::Kind::kJoin);
  return false;
}

bool ScheduleCommands::Decide(base::Now now, size_t position, NewMessage* message, bool waited,
                              Round* round) {
  DT_CHECK_LT(position, round->call->reply.accepted.size());
  AcceptedMessage& answer = round->call->reply.accepted[position];
  DT_CHECK(answer.status.ok());
  if (message->options == nullptr) {
    answer.status = Create(now, message, &answer, round);
    return true;
  }
  Conflict conflict;
  auto wait_for = FindConflict(now, *message, &conflict);
  if (!wait_for.ok()) {
    answer.status = wait_for.status();
  } else if (wait_for->has_value()) {
    return WaitFor(**wait_for, position, message, waited, round);
  } else if (conflict.repeated) {
    answer.status = AnswerRepeat(now, *message, &conflict, &answer);
  } else if (!message->options->key.empty()) {
    answer.status = DecideKey(now, message, &conflict, &answer, round);
  } else {
    answer.status = Create(now, message, &answer, round);
  }
  return true;
}

absl::StatusOr<std::optional<MessageLocks::Name>> ScheduleCommands::FindConflict(
    base::Now now, const NewMessage& message, Conflict* conflict) {
  DT_CHECK(message.options != nullptr);
  DT_CHECK(conflict->entry.id == MessageId{});
  const ScheduleOptions& options = *message.options;
  const auto find = [&](IndexKind kind, absl::string_view name) -> absl::Status {
    auto entry = finder_->FindName(now, message.topic, kind, name);
    if (entry.ok()) conflict->entry = *entry;
    return entry.status();
  };
  if (!options.request_id.empty()) {
    const std::string request = KeyIndex::RequestName(options);
    const auto name = MessageLocks::RequestName(message.topic, request);
    if (locks_->Locked(name)) return name;
    absl::Status status = find(IndexKind::kRequest, request);
    if (!status.ok()) return status;
    conflict->repeated = conflict->entry.id != MessageId{};
  }
  if (!conflict->repeated && !options.key.empty()) {
    const auto name = MessageLocks::KeyName(message.topic, options.key);
    if (locks_->Locked(name)) return name;
    absl::Status status = find(IndexKind::kUserKey, options.key);
    if (!status.ok()) return status;
  }
  const MessageId& id = conflict->entry.id;
  if (id == MessageId{}) return std::nullopt;
  if (const MessageLocks::Move* const move = locks_->FindMoveToJoin(id); move != nullptr) {
    finder_->FindMoved(*move, &conflict->found);
    if (!conflict->repeated && move->key_entry.has_value()) conflict->entry = *move->key_entry;
    return std::nullopt;
  }
  if (locks_->ChangeInFlight(id)) return MessageLocks::Name(id);
  absl::Status status = finder_->Find(now, id, &conflict->found);
  if (!status.ok()) return status;
  return std::nullopt;
}

absl::Status ScheduleCommands::AnswerExisting(base::Now now, Conflict* conflict,
                                              AcceptedMessage* answer) {
  FoundMessage& found = conflict->found;
  DT_CHECK(conflict->entry.id != MessageId{});
  answer->id = conflict->entry.id;
  answer->outcome = ScheduleOutcome::kUnchanged;
  answer->ended = found.kind != FoundMessage::Kind::kPending;
  if (found.kind == FoundMessage::Kind::kEnded) {
    answer->state = StateOf(found.tombstone.state);
    answer->deliver_ms = found.tombstone.deliver_ms;
    answer->accept_ms = found.tombstone.accept_ms;
    answer->revision = found.tombstone.revision;
  } else if (found.kind == FoundMessage::Kind::kPending) {
    DT_CHECK(found.key.id == answer->id);
    if (absl::Status status = finder_->Examine(now, &found); !status.ok()) return status;
    answer->state = found.delivery.state;
    answer->deliver_ms = found.record.header.deliver_ms;
    answer->accept_ms = found.record.header.accept_ms;
    answer->revision = found.record.revision;
    answer->update_ms = found.record.update_ms;
    answer->ttl_ms = found.record.ttl_ms;
    answer->minute_limit_exceeded =
        minute_limits_->Over(now, found.record.header.topic, found.key.due_ms);
  }
  answer->old_deliver_ms = answer->deliver_ms;
  return absl::OkStatus();
}

absl::Status ScheduleCommands::AnswerRepeat(base::Now now, const NewMessage& message,
                                            Conflict* conflict, AcceptedMessage* answer) {
  const ScheduleOptions& options = *message.options;
  const IndexEntry& entry = conflict->entry;
  DT_CHECK(!options.request_id.empty());
  if (entry.content != options.content) return RequestReusedError(options, entry.id);
  if (absl::Status status = AnswerExisting(now, conflict, answer); !status.ok()) return status;
  // Gives the answer of the first request, with the present state, etag and update time.
  answer->request_repeated = true;
  answer->outcome = static_cast<ScheduleOutcome>(entry.outcome);
  answer->deliver_ms = entry.deliver_ms;
  answer->accept_ms = entry.accept_ms;
  answer->old_deliver_ms = entry.old_deliver_ms;
  if (entry.previous != MessageId{}) answer->previous_id = entry.previous;
  answer->moved = IsOtherTime(entry.deliver_ms, message);
  return absl::OkStatus();
}

absl::Status ScheduleCommands::DecideKey(base::Now now, NewMessage* message, Conflict* conflict,
                                         AcceptedMessage* answer, Round* round) {
  const ScheduleOptions& options = *message->options;
  DT_CHECK(!options.key.empty());
  DT_CHECK(!conflict->repeated);
  FoundMessage& found = conflict->found;
  const bool pending = found.kind == FoundMessage::Kind::kPending;
  const bool known = found.kind != FoundMessage::Kind::kUnknown;
  if ((pending && options.on_conflict == OnConflict::kFail) ||
      (known && options.on_conflict == OnConflict::kOnce)) {
    return KeepExisting(now, *message, conflict, answer, round);
  }
  if (pending) {
    if (absl::Status status = finder_->Examine(now, &found); !status.ok()) return status;
    if (found.delivery.untouched()) return Replace(now, *message, *conflict, answer, round);
  }
  // The message has ended, or a subscriber has it or may have it. The message stays as it is, and
  // the key is free for another message.
  if (options.only_if_exists) return NothingToChangeError(options);
  if (known) answer->previous_id = conflict->entry.id;
  return Create(now, message, answer, round);
}

absl::Status ScheduleCommands::KeepExisting(base::Now now, const NewMessage& message,
                                            Conflict* conflict, AcceptedMessage* answer,
                                            Round* round) {
  const ScheduleOptions& options = *message.options;
  const FoundMessage& found = conflict->found;
  DT_CHECK(found.kind != FoundMessage::Kind::kUnknown);
  if (absl::Status status = AnswerExisting(now, conflict, answer); !status.ok()) return status;
  if (conflict->entry.content != options.content) {
    return ContentMismatchError(options, conflict->entry.id, answer->state);
  }
  if (found.kind == FoundMessage::Kind::kPending) {
    // A Reschedule may have given the message another local time, or none.
    storage::MessageRecord asked;
    absl::Status status = storage::DecodeMessageRecord(message.record, &asked);
    if (!status.ok()) return status;
    answer->moved =
        asked.civil_time != found.record.civil_time || asked.time_zone != found.record.time_zone;
  } else {
    answer->moved = IsOtherTime(answer->deliver_ms, message);
  }
  if (!options.validate_only) PutRequest(now, message, *answer, round);
  return absl::OkStatus();
}

absl::Status ScheduleCommands::Create(base::Now now, NewMessage* message, AcceptedMessage* answer,
                                      Round* round) {
  const size_t created = round->created.size();
  absl::Status status = creator_.Create(now, message, answer, &round->created);
  if (!status.ok() || round->created.size() == created) return status;
  DT_CHECK_EQ(round->created.size(), created + 1);
  DT_CHECK(round->created.back().key.id == answer->id);
  if (message->options == nullptr) return status;
  const ScheduleOptions& options = *message->options;
  if (!options.key.empty()) {
    IndexEntry entry;
    entry.id = answer->id;
    entry.content = options.content;
    index_->PutKey(message->topic, options.key, entry);
    locks_->LockCreated(answer->id, message->topic, options.key, &round->locked);
  }
  PutRequest(now, *message, *answer, round);
  return status;
}

MinuteLimits::Request ScheduleCommands::ReplacedTime(const ScheduleOptions& options,
                                                     const FoundMessage& found, uint64_t asked_ms) {
  const uint64_t old_ms = found.record.header.deliver_ms;
  const uint64_t latest_ms = found.record.header.accept_ms + options.max_wait_ms;
  MinuteLimits::Request request = {.deliver_ms = asked_ms, .present_ms = found.key.due_ms};
  switch (options.on_conflict) {
    case OnConflict::kFail:
    case OnConflict::kOnce:
    case OnConflict::kReplace:
      if (options.expire_ms > 0) request.latest_ms = options.expire_ms - 1;
      break;
    case OnConflict::kKeepTime:
      request.deliver_ms = old_ms;
      break;
    case OnConflict::kPushBack:
      if (options.max_wait_ms > 0) request.deliver_ms = std::min(asked_ms, latest_ms);
      request.deliver_ms = std::max(request.deliver_ms, old_ms);
      // A full minute must not move the message past max_wait either.
      if (options.max_wait_ms > 0) request.latest_ms = std::max(request.deliver_ms, latest_ms);
      break;
  }
  request.keeps_time = request.deliver_ms == old_ms;
  return request;
}

absl::Status ScheduleCommands::Replace(base::Now now, const NewMessage& message,
                                       const Conflict& conflict, AcceptedMessage* answer,
                                       Round* round) {
  const ScheduleOptions& options = *message.options;
  const storage::MessageRecord& old = conflict.found.record;
  const MessageId& id = conflict.found.key.id;
  DT_CHECK(conflict.found.delivery.untouched());
  DT_CHECK(protocol::Replaces(options.on_conflict));
  const uint64_t asked_ms =
      message.deliver_ms + Scheduler::SpreadPoint(id.epoch(), id.sequence(), options.spread_ms);
  absl::Status status = creator_.PlaceInMinute(
      now, message.topic, ReplacedTime(options, conflict.found, asked_ms), answer);
  if (!status.ok()) return status;
  if (options.expire_ms > 0) answer->ttl_ms = options.expire_ms - answer->deliver_ms;
  const bool changes = answer->deliver_ms != old.header.deliver_ms ||
                       !(conflict.entry.content == options.content) ||
                       (answer->ttl_ms > 0 && answer->ttl_ms != old.ttl_ms);
  answer->id = id;
  answer->outcome = changes ? ScheduleOutcome::kReplaced : ScheduleOutcome::kUnchanged;
  answer->state = StateAt(answer->deliver_ms, now);
  answer->accept_ms = old.header.accept_ms;
  answer->revision = old.revision + (changes ? 1 : 0);
  answer->update_ms = changes ? now.wall_ms : old.update_ms;
  answer->old_deliver_ms = old.header.deliver_ms;
  answer->moved = answer->deliver_ms != asked_ms;
  if (options.validate_only) return absl::OkStatus();
  if (!changes) {
    // A repeat of this request gets this answer, even if another request changes the message first.
    PutRequest(now, message, *answer, round);
    return absl::OkStatus();
  }
  storage::MessageRecord record;
  if (status = storage::DecodeMessageRecord(message.record, &record); !status.ok()) return status;
  record.header.deliver_ms = answer->deliver_ms;
  record.header.accept_ms = answer->accept_ms;
  record.revision = old.revision;
  if (answer->ttl_ms > 0) record.ttl_ms = answer->ttl_ms;
  // The local time of the request does not belong to the moved time.
  if (answer->moved) record.civil_time = record.time_zone = {};
  MessageRevision revision(std::move(record), now.wall_ms);
  DT_CHECK_EQ(revision.deliver_ms, answer->deliver_ms);
  IndexEntry entry = conflict.entry;
  entry.content = options.content;
  index_->PutKey(message.topic, options.key, entry);
  PutRequest(now, message, *answer, round);
  status = changes_->Move(now, conflict.found, std::move(revision));
  if (!status.ok()) return status;
  MessageLocks::Move* const move = locks_->FindOpenMove(id);
  DT_CHECK(move != nullptr);
  move->key_entry = entry;
  return absl::OkStatus();
}

void ScheduleCommands::PutRequest(base::Now now, const NewMessage& message,
                                  const AcceptedMessage& answer, Round* round) {
  const ScheduleOptions& options = *message.options;
  DT_CHECK(!options.validate_only);
  if (options.request_id.empty()) return;
  index_->PutRequest(now, message.topic, options, answer);
  round->locked.push_back(MessageLocks::RequestName(message.topic, KeyIndex::RequestName(options)));
  locks_->Lock(round->locked.back());
}

}  // namespace duetime::messages
