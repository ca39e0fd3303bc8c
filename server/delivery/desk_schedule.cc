// SPDX-License-Identifier: Apache-2.0
//
// The part of Desk that accepts messages.
#include <algorithm>
#include <utility>

#include "server/base/error.h"
#include "server/delivery/desk.h"
#include "server/delivery/schedule_errors.h"

namespace duetime::delivery {

using scheduler::Latches;
using scheduler::NewMessage;
using scheduler::OnConflict;
using scheduler::Scheduler;
using scheduler::Terms;
using storage::Durability;
using storage::IndexEntry;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;

namespace {

MessageState StateAt(uint64_t deliver_ms, base::Now now) {
  return deliver_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
}

}  // namespace

void Desk::Schedule(base::Now now, ScheduleCommand command) {
  for (auto& [topic, name] : command.new_topics) writer_->PutTopicName(topic, std::move(name));
  const bool plain =
      !writer_->has_quotas() && std::none_of(command.messages.begin(), command.messages.end(),
                                             [this](const NewMessage& message) {
                                               return message.terms != nullptr ||
                                                      minute_limits_.Has(message.topic);
                                             });
  if (plain) {
    SchedulePlain(now, std::move(command));
    return;
  }
  const CallPtr call = std::make_shared<ScheduleCall>();
  call->reply.tag = command.tag;
  call->reply.accepted.resize(command.messages.size());
  call->open = 1;
  for (size_t i = 0; i < command.messages.size(); ++i) {
    Decide(now, call, i, std::move(command.messages[i]), /*put_off=*/false);
  }
  outbox_->Then([this, call](base::Now, bool ok) { Finish(call, ok); });
}

void Desk::SchedulePlain(base::Now now, ScheduleCommand command) {
  ScheduleReply reply;
  reply.tag = command.tag;
  reply.accepted.resize(command.messages.size());
  for (size_t i = 0; i < command.messages.size(); ++i) {
    const NewMessage& message = command.messages[i];
    AcceptedMessage& accepted = reply.accepted[i];
    accepted.state = StateAt(message.deliver_ms, now);
    accepted.deliver_ms = message.deliver_ms;
    storage::MessageHeader header;
    if (storage::DecodeMessageHeader(message.record, &header).ok()) {
      accepted.accept_ms = header.accept_ms;
    }
  }
  const auto ids = scheduler_->Accept(now, std::move(command.messages));
  for (size_t i = 0; i < ids.size(); ++i) reply.accepted[i].id = ids[i];
  outbox_->Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
    if (!ok) {
      reply.status = base::StorageFailedError();
      reply.accepted.clear();
    }
    effects_->schedules.push_back(std::move(reply));
  });
}

void Desk::Finish(const CallPtr& call, bool ok) {
  if (!ok) call->reply.status = base::StorageFailedError();
  if (--call->open > 0) return;
  if (!call->reply.status.ok()) call->reply.accepted.clear();
  effects_->schedules.push_back(std::move(call->reply));
}

void Desk::Later(const Latches::Name& name, const CallPtr& call, size_t position,
                 NewMessage message, bool put_off) {
  if (!put_off && Crowded()) {
    call->reply.accepted[position].status = CrowdedError();
    return;
  }
  if (!put_off) ++call->open;
  WhenFree(name,
           [this, call, position, message = std::move(message)](base::Now now, bool ok) mutable {
             if (ok) {
               Decide(now, call, position, std::move(message), /*put_off=*/true);
             } else {
               Finish(call, false);
             }
           });
}

void Desk::Decide(base::Now now, const CallPtr& call, size_t position, NewMessage message,
                  bool put_off) {
  AcceptedMessage& answer = call->reply.accepted[position];
  const Terms none;
  const Terms& terms = message.terms != nullptr ? *message.terms : none;
  const storage::TopicId topic = message.topic;
  IndexEntry entry;
  bool repeated = false;
  if (!terms.request_id.empty()) {
    const Latches::Name name = RequestName(topic, terms.request_id);
    if (latches_->Held(name)) return Later(name, call, position, std::move(message), put_off);
    answer.status = ReadIndex(now, topic, IndexKind::kRequest, terms.request_id, &entry);
    repeated = entry.id != MessageId{};
  }
  if (!repeated && !terms.key.empty() && answer.status.ok()) {
    const Latches::Name name = KeyName(topic, terms.key);
    if (latches_->Held(name)) return Later(name, call, position, std::move(message), put_off);
    answer.status = ReadIndex(now, topic, IndexKind::kUserKey, terms.key, &entry);
  }
  Found found;
  if (answer.status.ok() && entry.id != MessageId{}) {
    if (Busy(entry.id)) {
      return Later(Latches::Name(entry.id), call, position, std::move(message), put_off);
    }
    answer.status = Locate(now, entry.id, &found);
  }
  if (answer.status.ok()) {
    if (repeated) {
      answer.status = AnswerRequest(now, terms, entry, found, &answer);
    } else if (!terms.key.empty()) {
      answer.status = DecideKey(now, &message, entry, found, &answer);
    } else {
      answer.status = Create(now, &message, &answer);
    }
  }
  if (!put_off) return;
  outbox_->Then([this, call](base::Now, bool ok) { Finish(call, ok); });
}

absl::Status Desk::AnswerExisting(base::Now now, const Found& found, const MessageId& id,
                                  AcceptedMessage* answer) {
  answer->id = id;
  answer->outcome = ScheduleOutcome::kUnchanged;
  if (found.what == Found::What::kEnded) {
    answer->state = StateOf(found.fate.state);
    answer->deliver_ms = found.fate.deliver_ms;
    answer->accept_ms = found.fate.accept_ms;
    answer->revision = found.fate.revision;
  } else if (found.what == Found::What::kPending) {
    Standing standing;
    if (absl::Status status = StandingOf(now, found, &standing); !status.ok()) return status;
    if (absl::Status status = storage::DecodeMessageRecord(found.record, &decoded_); !status.ok()) {
      return status;
    }
    answer->state = standing.state;
    answer->deliver_ms = decoded_.header.deliver_ms;
    answer->accept_ms = decoded_.header.accept_ms;
    answer->revision = decoded_.revision;
    answer->bucket_over = minute_limits_.Over(now, decoded_.header.topic, found.key.due_ms);
  }
  answer->old_deliver_ms = answer->deliver_ms;
  return absl::OkStatus();
}

absl::Status Desk::AnswerRequest(base::Now now, const Terms& terms, const IndexEntry& entry,
                                 const Found& found, AcceptedMessage* answer) {
  if (entry.content != terms.content) return RequestReusedError(terms, entry.id);
  if (absl::Status status = AnswerExisting(now, found, entry.id, answer); !status.ok()) {
    return status;
  }
  // What was done then, with the state of now.
  answer->outcome = static_cast<ScheduleOutcome>(entry.outcome);
  answer->deliver_ms = entry.deliver_ms;
  answer->accept_ms = entry.accept_ms;
  answer->old_deliver_ms = entry.old_deliver_ms;
  return absl::OkStatus();
}

absl::Status Desk::DecideKey(base::Now now, NewMessage* message, const IndexEntry& entry,
                             const Found& found, AcceptedMessage* answer) {
  const Terms& terms = *message->terms;
  if (found.what == Found::What::kNothing) {
    if (terms.only_if_exists) return NothingToChangeError(terms);
    return Create(now, message, answer);
  }
  if (terms.on_conflict == OnConflict::kFail) {
    if (absl::Status status = AnswerExisting(now, found, entry.id, answer); !status.ok()) {
      return status;
    }
    if (entry.content != terms.content) {
      return ContentMismatchError(terms, entry.id, answer->state);
    }
    if (!terms.validate_only) PutRequest(now, *message, *answer);
    return absl::OkStatus();
  }
  if (found.what == Found::What::kPending) {
    Standing standing;
    if (absl::Status status = StandingOf(now, found, &standing); !status.ok()) return status;
    if (standing.untouched()) return Replace(now, message, entry, found, answer);
  }
  // It has been delivered, or may have been, or has ended: it goes its way, and the key is free for
  // another message.
  if (terms.only_if_exists) return NothingToChangeError(terms);
  answer->previous_id = entry.id;
  return Create(now, message, answer);
}

absl::Status Desk::Replace(base::Now now, NewMessage* message, const IndexEntry& entry,
                           const Found& found, AcceptedMessage* answer) {
  const Terms& terms = *message->terms;
  if (absl::Status status = storage::DecodeMessageRecord(found.record, &decoded_); !status.ok()) {
    return status;
  }
  const MessageId& id = found.key.id;
  const uint64_t old_ms = decoded_.header.deliver_ms;
  const uint64_t accept_ms = decoded_.header.accept_ms;
  const uint64_t revision = decoded_.revision;
  const uint64_t asked_ms =
      message->deliver_ms + Scheduler::SpreadPoint(id.epoch(), id.sequence(), terms.spread_ms);
  uint64_t deliver_ms = asked_ms;
  if (terms.on_conflict == OnConflict::kKeepTime) {
    deliver_ms = old_ms;
  } else if (terms.on_conflict == OnConflict::kPushBack) {
    if (terms.max_wait_ms > 0) deliver_ms = std::min(deliver_ms, accept_ms + terms.max_wait_ms);
    deliver_ms = std::max(deliver_ms, old_ms);
  }
  MinuteLimits::Wish wish = {.deliver_ms = deliver_ms, .present_ms = found.key.due_ms};
  // What max_wait promises holds also where others are in the way.
  if (terms.on_conflict == OnConflict::kPushBack && terms.max_wait_ms > 0) {
    wish.latest_ms = std::max(deliver_ms, accept_ms + terms.max_wait_ms);
  }
  if (absl::Status status = FitMinute(now, message->topic, wish, answer); !status.ok()) {
    return status;
  }
  deliver_ms = answer->deliver_ms;
  const bool changes = deliver_ms != old_ms || !(entry.content == terms.content);
  answer->id = id;
  answer->outcome = changes ? ScheduleOutcome::kReplaced : ScheduleOutcome::kUnchanged;
  answer->state = StateAt(deliver_ms, now);
  answer->accept_ms = accept_ms;
  answer->revision = revision + (changes ? 1 : 0);
  answer->old_deliver_ms = old_ms;
  answer->moved = deliver_ms != asked_ms;
  if (terms.validate_only) return absl::OkStatus();
  // A repeat is answered the same also if this changed nothing and others come in between.
  if (!changes) {
    PutRequest(now, *message, *answer);
    return absl::OkStatus();
  }
  if (absl::Status status = storage::DecodeMessageRecord(message->record, &decoded_);
      !status.ok()) {
    return status;
  }
  decoded_.header.deliver_ms = deliver_ms;
  decoded_.header.accept_ms = accept_ms;
  decoded_.revision = answer->revision;
  decoded_.update_ms = now.wall_ms;
  // A local time belongs to the moment that was resolved from it.
  if (answer->moved) decoded_.civil_time = decoded_.time_zone = {};
  std::string record = storage::EncodeMessageRecord(decoded_);
  IndexEntry renewed = entry;
  renewed.content = terms.content;
  writer_->PutIndex(message->topic, IndexKind::kUserKey, terms.key, renewed, Durability::kSynced);
  PutRequest(now, *message, *answer);
  return Move(now, found, deliver_ms, std::move(record), message->flags);
}

absl::Status Desk::Create(base::Now now, NewMessage* message, AcceptedMessage* answer) {
  if (const TopicQuota* const quota = writer_->QuotaOf(message->topic);
      quota != nullptr && !quota->HasRoom()) {
    return TopicFullError(quota->max.load());
  }
  const Terms none;
  const Terms& terms = message->terms != nullptr ? *message->terms : none;
  if (absl::Status status = storage::DecodeMessageRecord(message->record, &decoded_);
      !status.ok()) {
    return status;
  }
  // The spread of the id that it would get.
  const MessageId next = scheduler_->NextId();
  const uint64_t point_ms = Scheduler::SpreadPoint(next.epoch(), next.sequence(), terms.spread_ms);
  const uint64_t asked_ms = message->deliver_ms + point_ms;
  if (absl::Status status = FitMinute(now, message->topic, {.deliver_ms = asked_ms}, answer);
      !status.ok()) {
    return status;
  }
  const uint64_t moved_ms = answer->deliver_ms - asked_ms;
  answer->moved = moved_ms > 0;
  answer->outcome = ScheduleOutcome::kCreated;
  answer->accept_ms = decoded_.header.accept_ms;
  if (terms.validate_only) answer->deliver_ms -= point_ms;
  answer->state = StateAt(answer->deliver_ms, now);
  if (terms.validate_only) return absl::OkStatus();
  const MessageKey key =
      scheduler_->NewKey(now, message->slot, message->deliver_ms + moved_ms, terms.spread_ms);
  if (answer->deliver_ms != message->deliver_ms) {
    decoded_.header.deliver_ms = answer->deliver_ms;
    if (answer->moved) decoded_.civil_time = decoded_.time_zone = {};
    message->record = storage::EncodeMessageRecord(decoded_);
  }
  answer->id = key.id;
  const MessageRef ref = {.key = key,
                          .topic = message->topic,
                          .bytes = static_cast<uint32_t>(message->record.size()),
                          .flags = message->flags};
  scheduler_->Put(now, ref, std::move(message->record));
  if (!terms.key.empty()) {
    IndexEntry entry;
    entry.id = key.id;
    entry.content = terms.content;
    writer_->PutIndex(ref.topic, IndexKind::kUserKey, terms.key, entry, Durability::kSynced);
    latches_->Acquire(KeyName(ref.topic, terms.key));
  }
  PutRequest(now, *message, *answer);
  outbox_->Then([this, ref, key_text = terms.key](base::Now then, bool ok) {
    if (ok) {
      scheduler_->CountAccepted(1);
      scheduler_->OnPut(ref);
    }
    if (!key_text.empty()) latches_->Release(then, KeyName(ref.topic, key_text), ok);
  });
  return absl::OkStatus();
}

absl::Status Desk::FitMinute(base::Now now, storage::TopicId topic, const MinuteLimits::Wish& wish,
                             AcceptedMessage* answer) const {
  MinuteLimits::Place place = {.deliver_ms = wish.deliver_ms};
  if (minute_limits_.Has(topic)) {
    absl::Status status = minute_limits_.Find(now, topic, wish, &place);
    if (!status.ok()) return status;
  }
  answer->deliver_ms = place.deliver_ms;
  answer->bucket_over = place.over;
  return absl::OkStatus();
}

void Desk::PutRequest(base::Now now, const NewMessage& message, const AcceptedMessage& answer) {
  if (message.terms == nullptr || message.terms->request_id.empty()) return;
  const Terms& terms = *message.terms;
  IndexEntry entry;
  entry.id = answer.id;
  entry.content = terms.content;
  entry.expire_ms = now.wall_ms + request_retention_ms_;
  entry.outcome = static_cast<uint8_t>(answer.outcome);
  entry.deliver_ms = answer.deliver_ms;
  entry.accept_ms = answer.accept_ms;
  entry.old_deliver_ms = answer.old_deliver_ms;
  writer_->PutIndex(message.topic, IndexKind::kRequest, terms.request_id, entry,
                    Durability::kSynced);
  const Latches::Name name = RequestName(message.topic, terms.request_id);
  latches_->Acquire(name);
  outbox_->Then([this, name](base::Now then, bool ok) { latches_->Release(then, name, ok); });
}

}  // namespace duetime::delivery
