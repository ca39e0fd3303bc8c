// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that answers Cancel and Get: it knows best where a message is.
//
// Cancel decides by what is certain (P3). While the process lives its memory is exact: what is in
// the table with no attempt, or is not in the table, has not been handed out by this run. What an
// earlier run may have handed out is told by the claims it left: W_claim for the wheel, the backlog
// claim for what had been moved to disk.
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/dispatcher.h"
#include "storage/message_record.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageId;
using storage::MessageKey;

namespace {

absl::Status NotFoundError(const MessageId& id) {
  return base::MakeError(
      absl::StatusCode::kNotFound,
      absl::StrCat("message ", id.ToString(), " does not exist: it never did, or it has ended"),
      {.reason = "MESSAGE_NOT_FOUND",
       .field = "message_id",
       .metadata = {{"message_id", id.ToString()}},
       .retry_after_ms = 0});
}

}  // namespace

void Dispatcher::ReplyAfterCommit(CancelReply reply) {
  // Another cancel or settlement of the same message is on its way to the journal: this answer is
  // true once that one is.
  outbox_->Then([this, reply = std::move(reply)](base::Now, bool accepted) mutable {
    if (!accepted) reply.status = base::StorageFailedError();
    Reply(std::move(reply));
  });
}

void Dispatcher::Cancel(base::Now now, const CancelCommand& command) {
  CancelReply reply;
  reply.tag = command.tag;
  reply.outcome = CancelOutcome::kNotFound;
  if (const EntryIndex index = table_.Find(command.id); index != kNoEntry) {
    CancelEntry(command, index, std::move(reply));
  } else if (cancelling_.contains(command.id)) {
    ReplyAfterCommit(std::move(reply));
  } else if (command.id.epoch() > scheduler_->epoch()) {
    Reply(std::move(reply));  // an id that has not been given yet
  } else {
    CancelStored(now, command, std::move(reply));
  }
}

void Dispatcher::CancelEntry(const CancelCommand& command, EntryIndex index, CancelReply reply) {
  const DueEntry& entry = table_[index];
  if (entry.state == EntryState::kEnding) {
    ReplyAfterCommit(std::move(reply));
    return;
  }
  if (!entry.seen) {
    const auto record = store_->Get(shard_, entry.key());
    if (!record.ok()) {
      read_error_ = record.status();
      reply.status = base::StorageFailedError();
      Reply(std::move(reply));
      return;
    }
    if (!record->has_value()) {
      Reply(std::move(reply));  // an echo; it is dropped when its turn comes
      return;
    }
  }
  const bool in_flight = entry.state == EntryState::kInFlight;
  const bool delivered = entry.attempts > 0;
  const bool uncertain = !delivered && entry.maybe_delivered;
  reply.state = in_flight ? MessageState::kInFlight : MessageState::kDue;
  reply.outcome = delivered || uncertain ? CancelOutcome::kInFlight : CancelOutcome::kCancelled;
  reply.delivery_uncertain = uncertain;
  if (reply.outcome == CancelOutcome::kInFlight) {
    if (!command.stop_redelivery) {
      Reply(std::move(reply));
      return;
    }
    reply.redelivery_stopped = true;
  }
  BeginEnd(index, Durability::kSynced);
  outbox_->Then(
      [this, index, in_flight, reply = std::move(reply)](base::Now, bool accepted) mutable {
        if (accepted) {
          ++stats_->cancelled;
          const StreamId stream = table_[index].stream;
          const uint32_t bytes = table_[index].bytes;
          Forget(index);
          if (in_flight) ReturnCredit(stream, 1, bytes);
        } else {
          reply.status = base::StorageFailedError();
        }
        Reply(std::move(reply));
      });
}

absl::Status Dispatcher::FindUncertainty(const MessageId& id, storage::TopicId topic_id,
                                         bool* delivered, bool* uncertain) {
  *delivered = false;
  *uncertain = scheduler_->MaybeDelivered(id);
  Topic* const topic = TopicOf(topic_id);
  if (!topic->behind) return absl::OkStatus();
  const MessageKey key{.due_ms = id.due_ms(), .id = id};
  const auto entry = store_->GetBacklog(shard_, topic_id, key);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return absl::OkStatus();
  if (absl::Status status = ReadRecoveredClaim(topic); !status.ok()) return status;
  // Listed, and not in memory: since it was listed it can only have been handed out by an earlier
  // run that read it back.
  *delivered = (*entry)->attempts > 0;
  *uncertain = (*entry)->maybe_delivered || ClaimedBefore(*topic, key);
  return absl::OkStatus();
}

void Dispatcher::CancelStored(base::Now now, const CancelCommand& command, CancelReply reply) {
  const MessageKey key{.due_ms = command.id.due_ms(), .id = command.id};
  const auto record = store_->Get(shard_, key);
  if (!record.ok()) {
    read_error_ = record.status();
    reply.status = base::StorageFailedError();
    Reply(std::move(reply));
    return;
  }
  if (!record->has_value()) {
    Reply(std::move(reply));
    return;
  }
  storage::MessageHeader header;
  bool delivered = false;
  bool uncertain = false;
  absl::Status status = storage::DecodeMessageHeader(**record, &header);
  if (status.ok()) status = FindUncertainty(command.id, header.topic, &delivered, &uncertain);
  if (!status.ok()) {
    reply.status = status;
    Reply(std::move(reply));
    return;
  }
  reply.state = header.deliver_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
  reply.outcome = delivered || uncertain ? CancelOutcome::kInFlight : CancelOutcome::kCancelled;
  reply.delivery_uncertain = uncertain && !delivered;
  if (reply.outcome == CancelOutcome::kInFlight && !command.stop_redelivery) {
    Reply(std::move(reply));
    return;
  }
  reply.redelivery_stopped = reply.outcome == CancelOutcome::kInFlight;
  // Until the journal has it the message may become due or be read back: it is not to be taken up
  // any more.
  cancelling_.insert(command.id);
  AddErase(key, Durability::kSynced);
  const Topic& topic = *TopicOf(header.topic);
  if (topic.behind) AddUnspill(key, topic);
  outbox_->Then(
      [this, id = command.id, reply = std::move(reply)](base::Now, bool accepted) mutable {
        cancelling_.erase(id);
        if (accepted) {
          ++stats_->cancelled;
        } else {
          reply.status = base::StorageFailedError();
        }
        Reply(std::move(reply));
      });
}

void Dispatcher::Get(base::Now now, const GetCommand& command) {
  GetReply reply;
  reply.tag = command.tag;
  auto record = store_->Get(shard_, {.due_ms = command.id.due_ms(), .id = command.id});
  if (!record.ok()) {
    read_error_ = record.status();
    reply.status = base::StorageFailedError();
  } else if (!record->has_value()) {
    reply.status = NotFoundError(command.id);
  } else {
    reply.record = *std::move(*record);
    storage::MessageHeader header;
    reply.status = storage::DecodeMessageHeader(reply.record, &header);
    reply.state = header.deliver_ms <= now.wall_ms ? MessageState::kDue : MessageState::kScheduled;
    if (const EntryIndex index = table_.Find(command.id); index != kNoEntry) {
      reply.attempts = table_[index].attempts;
      reply.state = table_[index].state == EntryState::kInFlight ? MessageState::kInFlight
                                                                 : MessageState::kDue;
    }
  }
  effects_->gets.push_back(std::move(reply));
}

}  // namespace duetime::delivery
