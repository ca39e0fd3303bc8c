// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_queries.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/messages/message_states.h"
#include "server/protocol/reply_to.h"

namespace duetime::messages {

using protocol::GetReply;
using storage::MessageKey;

namespace {

absl::Status MessageNotFoundError(const protocol::Target& target) {
  const bool by_key = !target.key.empty();
  const std::string id = target.id.ToString();
  return base::MakeError(
      absl::StatusCode::kNotFound,
      by_key ? "there is no message with this key: there never was, or it ended too long ago to be "
               "remembered"
             : absl::StrCat("message ", id,
                            " does not exist: it never did, or it ended too long ago to be "
                            "remembered"),
      {.reason = "MESSAGE_NOT_FOUND",
       .field = by_key ? "key" : "message_id",
       .metadata = {by_key ? std::pair<std::string, std::string>("key", target.key)
                           : std::pair<std::string, std::string>("message_id", id)},
       .retry_after_ms = 0});
}

}  // namespace

MessageQueries::MessageQueries(const delivery::Core& core, const delivery::MessageEnds* ends,
                               MessageFinder* finder, MessageLocks* locks)
    : core_(core), ends_(ends), finder_(finder), locks_(locks) {}

void MessageQueries::Get(base::Now now, protocol::GetCommand command) {
  auto target = finder_->Resolve(now, command.target);
  if (target.ok() && target->wait_for.has_value()) {
    auto again = [this, command = std::move(command)](base::Now later, bool ok) mutable {
      if (!ok) return core_.Answer(protocol::ReplyTo(command, base::StorageFailedError()));
      Get(later, std::move(command));
    };
    locks_->Wait(*target->wait_for, std::move(again), MessageLocks::Kind::kRead);
    return;
  }
  GetReply reply = protocol::ReplyTo(command);
  // Right before the read, so that a command that waited is checked again.
  reply.status = target.ok() ? protocol::Admit(command.budget) : target.status();
  if (reply.status.ok()) {
    FoundMessage found;
    reply.id = target->id;
    reply.status = finder_->FindFor(now, command.target, reply.id, &found);
    if (reply.status.ok()) FillReply(now, command.target, &found, &reply);
    reply.charge = protocol::Charge(command.budget, reply.record.size());
  }
  core_.Answer(std::move(reply));
}

void MessageQueries::FillReply(base::Now now, const protocol::Target& target, FoundMessage* found,
                               GetReply* reply) {
  DT_CHECK(reply->status.ok());
  switch (found->kind) {
    case FoundMessage::Kind::kUnknown:
      reply->status = MessageNotFoundError(target);
      break;
    case FoundMessage::Kind::kEnded:
      reply->state = StateOf(found->tombstone.state);
      reply->attempts = found->tombstone.attempts;
      reply->timeline.fire_ms = found->tombstone.fire_ms;
      reply->timeline.dispatch_ms = found->tombstone.dispatch_ms;
      reply->timeline.end_ms = found->tombstone.end_ms;
      reply->tombstone = std::move(found->tombstone);
      break;
    case FoundMessage::Kind::kPending:
      DT_CHECK(found->key.id == reply->id);
      reply->status =
          finder_->DeliveryStatusOf(now, *found, &found->delivery, &reply->subscriptions);
      reply->state = found->delivery.state;
      reply->attempts = found->delivery.attempts;
      FillTimeline(*found, reply);
      reply->record = std::move(found->bytes);
      break;
  }
}

void MessageQueries::FillTimeline(const FoundMessage& found, GetReply* reply) {
  DT_CHECK(found.kind == FoundMessage::Kind::kPending);
  protocol::Timeline& timeline = reply->timeline;
  timeline.due_ms = found.key.due_ms;
  timeline.loaded = core_.scheduler.Loaded(found.key);
  timeline.claimed = found.key.due_ms <= core_.scheduler.claim_ms();
  bool behind = false;
  for (const delivery::Subscription* const subscription :
       core_.subscriptions.TopicOf(found.record.header.topic)->subscriptions) {
    timeline.subscribers += static_cast<uint32_t>(subscription->streams);
    behind = behind || subscription->backlog.any();
  }
  for (const protocol::SubscriptionStatus& status : reply->subscriptions) {
    timeline.lease_end_ms = std::max(timeline.lease_end_ms, status.lease_end_ms);
  }
  const delivery::EntryIndex index = core_.table.FindAt(found.key);
  if (index == delivery::kNoEntry) {
    timeline.in_backlog = behind && found.key.due_ms <= core_.scheduler.reached_ms();
    return;
  }
  timeline.fire_ms = core_.table[index].fire_ms;
  timeline.dispatch_ms = core_.table[index].dispatch_ms;
}

protocol::InspectedMessage MessageQueries::StateOfKey(base::Now now, const MessageKey& key) const {
  protocol::InspectedMessage message;
  if (ends_->MessageEnding(key)) return message;
  message.state = StateAt(key.due_ms, now);
  for (delivery::EntryIndex i = core_.table.Find(key.id); i != delivery::kNoEntry;
       i = core_.table[i].sibling) {
    const delivery::PendingDelivery& entry = core_.table[i];
    if (entry.due_ms != key.due_ms) continue;
    message.attempts = std::max(message.attempts, entry.attempts);
    if (entry.state == delivery::EntryState::kInFlight) {
      message.state = protocol::MessageState::kInFlight;
    }
  }
  return message;
}

void MessageQueries::Inspect(base::Now now, const protocol::InspectCommand& command) {
  protocol::InspectReply reply = protocol::ReplyTo(command);
  reply.messages.reserve(command.keys.size());
  for (const MessageKey& key : command.keys) reply.messages.push_back(StateOfKey(now, key));
  DT_CHECK_EQ(reply.messages.size(), command.keys.size());
  core_.Answer(std::move(reply));
}

}  // namespace duetime::messages
