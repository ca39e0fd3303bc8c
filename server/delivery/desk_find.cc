// SPDX-License-Identifier: Apache-2.0
//
// The part of Desk that finds messages, and says what is known of them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/desk.h"
#include "server/delivery/desk_put_off.h"

namespace duetime::delivery {

using scheduler::Latches;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;

namespace {

absl::Status NotFoundError(const Target& target) {
  if (!target.key.empty()) {
    return base::MakeError(absl::StatusCode::kNotFound,
                           "there is no message with this key: there never was, or it ended too "
                           "long ago to be remembered",
                           {.reason = "MESSAGE_NOT_FOUND",
                            .field = "key",
                            .metadata = {{"key", target.key}},
                            .retry_after_ms = 0});
  }
  return base::MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat("message ", target.id.ToString(),
                   " does not exist: it never did, or it ended too long ago to be remembered"),
      {.reason = "MESSAGE_NOT_FOUND",
       .field = "message_id",
       .metadata = {{"message_id", target.id.ToString()}},
       .retry_after_ms = 0});
}

}  // namespace

Desk::Desk(const ShardParts& parts, scheduler::Scheduler* scheduler, Dispatcher* dispatcher)
    : shard_(parts.shard),
      request_retention_ms_(parts.limits->request_retention_ms),
      waiting_max_(parts.limits->waiting_max),
      store_(parts.store),
      outbox_(parts.outbox),
      writer_(parts.writer),
      latches_(parts.latches),
      effects_(parts.effects),
      stats_(parts.stats),
      scheduler_(scheduler),
      dispatcher_(dispatcher),
      occurrences_(parts.occurrences),
      endings_(parts.shard, parts.store, parts.writer, parts.latches),
      minute_limits_(parts.store->shard_count(), parts.writer) {}

bool Desk::Busy(const MessageId& id) const { return latches_->Held(id) || dispatcher_->Ending(id); }

void Desk::WhenFree(const Latches::Name& name, Latches::Waiter waiter) {
  if (latches_->Held(name)) {
    latches_->Wait(name, std::move(waiter));
  } else {
    // It ends by a settlement: that is in the store when what is decided now is.
    outbox_->Then(std::move(waiter));
  }
}

absl::Status Desk::CrowdedError() const {
  return base::OverloadedError("commands that wait for the same message or key", waiting_max_);
}

Latches::Name Desk::KeyName(storage::TopicId topic, absl::string_view key) {
  return Latches::Name(static_cast<uint8_t>(IndexKind::kUserKey), topic, key);
}

Latches::Name Desk::RequestName(storage::TopicId topic, absl::string_view request) {
  return Latches::Name(static_cast<uint8_t>(IndexKind::kRequest), topic, request);
}

absl::Status Desk::ReadIndex(base::Now now, storage::TopicId topic, IndexKind kind,
                             absl::string_view name, storage::IndexEntry* entry) {
  *entry = {};
  auto found = store_->GetIndex(shard_, topic, kind, name);
  if (!found.ok()) return ReadFailed(found.status());
  if (!found->has_value()) return absl::OkStatus();
  if ((*found)->expire_ms == 0 || (*found)->expire_ms > now.wall_ms) *entry = **found;
  return absl::OkStatus();
}

absl::Status Desk::Resolve(base::Now now, const Target& target, MessageId* id) {
  *id = target.id;
  if (target.key.empty()) return absl::OkStatus();
  storage::IndexEntry entry;
  absl::Status status = ReadIndex(now, target.topic, IndexKind::kUserKey, target.key, &entry);
  *id = entry.id;
  return status;
}

absl::Status Desk::ReadFailed(const absl::Status& status) {
  dispatcher_->NoteReadError(status);
  return base::StorageFailedError();
}

absl::Status Desk::Locate(base::Now now, const MessageId& id, Found* found) {
  DT_CHECK(!Busy(id));
  *found = {};
  // Not an id, or one that has not been given yet.
  if (id == MessageId{} || id.epoch() > scheduler_->epoch()) return absl::OkStatus();
  const auto read = [&](const MessageKey& key) -> absl::Status {
    auto record = store_->Get(shard_, key);
    if (!record.ok()) return ReadFailed(record.status());
    if (!record->has_value()) return absl::OkStatus();
    found->what = Found::What::kPending;
    found->key = key;
    found->record = *std::move(*record);
    return absl::OkStatus();
  };
  if (const EntryIndex index = dispatcher_->Find(id); index != kNoEntry) {
    if (absl::Status status = read(dispatcher_->entry(index).key()); !status.ok()) return status;
    if (found->what == Found::What::kPending) return absl::OkStatus();
    // An echo of a place from which it was moved, or where it ended.
  }
  if (absl::Status status = read({.due_ms = id.due_ms(), .id = id}); !status.ok()) return status;
  if (found->what == Found::What::kPending) return absl::OkStatus();
  const auto trace = store_->GetTrace(shard_, id);
  if (!trace.ok()) return ReadFailed(trace.status());
  if (!trace->has_value()) return absl::OkStatus();
  if (!(*trace)->fate.has_value()) return read({.due_ms = (*trace)->due_ms, .id = id});
  if ((*trace)->fate->expire_ms <= now.wall_ms) return absl::OkStatus();
  found->what = Found::What::kEnded;
  found->fate = *(*trace)->fate;
  return absl::OkStatus();
}

absl::Status Desk::StandingOf(base::Now now, const Found& found, Standing* standing,
                              std::vector<SubscriptionStanding>* list) {
  storage::MessageHeader header;
  if (absl::Status status = storage::DecodeMessageHeader(found.record, &header); !status.ok()) {
    return status;
  }
  const bool due = header.deliver_ms <= now.wall_ms;
  if (absl::Status status =
          dispatcher_->StandingOf(now, found.key, header.topic, standing, due ? list : nullptr);
      !status.ok()) {
    return ReadFailed(status);
  }
  standing->state = due ? MessageState::kDue : MessageState::kScheduled;
  if (standing->in_flight) standing->state = MessageState::kInFlight;
  return absl::OkStatus();
}

MessageState Desk::StateOf(storage::EndState state) {
  switch (state) {
    case storage::EndState::kAcked:
      return MessageState::kAcked;
    case storage::EndState::kCancelled:
      return MessageState::kCancelled;
    case storage::EndState::kExpired:
      return MessageState::kExpired;
    case storage::EndState::kDeadLettered:
      return MessageState::kDeadLettered;
    case storage::EndState::kSkipped:
      return MessageState::kSkipped;
    case storage::EndState::kDropped:
      return MessageState::kDropped;
  }
  return MessageState::kUnspecified;
}

void Desk::Get(base::Now now, GetCommand command) {
  GetReply reply;
  reply.tag = command.tag;
  MessageId id;
  if (PutOff(now, &command, &Desk::Get, &id, &reply.status)) return;
  Found found;
  if (reply.status.ok()) reply.status = Locate(now, id, &found);
  reply.id = id;
  if (reply.status.ok()) {
    switch (found.what) {
      case Found::What::kNothing:
        reply.status = NotFoundError(command.target);
        break;
      case Found::What::kEnded:
        reply.state = StateOf(found.fate.state);
        reply.attempts = found.fate.attempts;
        reply.timeline.fire_ms = found.fate.fire_ms;
        reply.timeline.dispatch_ms = found.fate.dispatch_ms;
        reply.timeline.end_ms = found.fate.end_ms;
        reply.fate = std::move(found.fate);
        break;
      case Found::What::kPending: {
        Standing standing;
        reply.status = StandingOf(now, found, &standing, &reply.subscriptions);
        reply.state = standing.state;
        reply.attempts = standing.attempts;
        FillTimeline(found, &reply);
        reply.record = std::move(found.record);
        break;
      }
    }
  }
  effects_->gets.push_back(std::move(reply));
}

void Desk::FillTimeline(const Found& found, GetReply* reply) {
  Timeline& timeline = reply->timeline;
  timeline.due_ms = found.key.due_ms;
  timeline.loaded = scheduler_->Loaded(found.key);
  timeline.claimed = found.key.due_ms <= scheduler_->claim_ms();
  storage::MessageHeader header;
  if (!storage::DecodeMessageHeader(found.record, &header).ok()) return;
  bool behind = false;
  for (const Subscription* const subscription : dispatcher_->topic(header.topic).subscriptions) {
    timeline.subscribers += static_cast<uint32_t>(subscription->streams);
    behind = behind || subscription->has_backlog();
  }
  for (const SubscriptionStanding& one : reply->subscriptions) {
    timeline.lease_end_ms = std::max(timeline.lease_end_ms, one.lease_end_ms);
  }
  const EntryIndex index = dispatcher_->FindAt(found.key);
  if (index == kNoEntry) {
    timeline.in_backlog = behind && found.key.due_ms <= scheduler_->reached_ms();
    return;
  }
  timeline.fire_ms = dispatcher_->entry(index).fire_ms;
  timeline.dispatch_ms = dispatcher_->entry(index).dispatch_ms;
}

void Desk::Inspect(base::Now now, const InspectCommand& command) {
  InspectReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  reply.messages.reserve(command.keys.size());
  for (const MessageKey& key : command.keys) {
    InspectedMessage message;
    message.state = key.due_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
    for (EntryIndex i = dispatcher_->Find(key.id); i != kNoEntry;
         i = dispatcher_->entry(i).sibling) {
      const DueEntry& entry = dispatcher_->entry(i);
      if (entry.due_ms != key.due_ms) continue;
      message.attempts = std::max(message.attempts, entry.attempts);
      if (entry.state == EntryState::kInFlight) message.state = MessageState::kInFlight;
    }
    if (dispatcher_->EndingWhole(key)) message.state = MessageState::kUnspecified;
    reply.messages.push_back(message);
  }
  effects_->inspects.push_back(std::move(reply));
}

void Desk::Refuse(const ScheduleCommand& command) {
  ScheduleReply reply;
  reply.tag = command.tag;
  reply.status = base::StorageFailedError();
  effects_->schedules.push_back(std::move(reply));
}

void Desk::Refuse(const CancelCommand& command) {
  CancelReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  reply.status = base::StorageFailedError();
  effects_->cancels.push_back(std::move(reply));
}

void Desk::Refuse(const RescheduleCommand& command) {
  RescheduleReply reply;
  reply.tag = command.tag;
  reply.status = base::StorageFailedError();
  effects_->reschedules.push_back(std::move(reply));
}

void Desk::Refuse(const GetCommand& command) {
  GetReply reply;
  reply.tag = command.tag;
  reply.status = base::StorageFailedError();
  effects_->gets.push_back(std::move(reply));
}

void Desk::Refuse(const InspectCommand& command) {
  InspectReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  reply.status = base::StorageFailedError();
  effects_->inspects.push_back(std::move(reply));
}

}  // namespace duetime::delivery
