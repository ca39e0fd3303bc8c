// SPDX-License-Identifier: Apache-2.0
//
// MessageCommands: makes and connects the parts of this room.
#pragma once

#include <utility>

#include "server/base/clock.h"
#include "server/delivery/shard_parts.h"
#include "server/messages/bulk_changes.h"
#include "server/messages/change_commands.h"
#include "server/messages/message_queries.h"
#include "server/messages/schedule_commands.h"

namespace duetime::messages {

// Hands each command about messages to the part that decides it. Holds no state of its own.
//
//   ScheduleCommands   Schedule        MessageCreator, MinuteLimits
//   ChangeCommands     Cancel, Reschedule
//   MessageQueries     Get, Inspect
//   BulkChanges        changes without an answer
//   below them         MessageFinder (where a message is), MessageChanges (the records of a
//                      change), KeyIndex (names), MessageLocks (one change at a time)
//
// Thread safety: confined to the shard's engine thread.
class MessageCommands {
 public:
  // REQUIRES: all pointers outlive it.
  MessageCommands(const delivery::ShardParts& parts, scheduler::Scheduler* scheduler,
                  delivery::Dispatcher* dispatcher)
      : minute_limits_(parts.store->shard_count(), parts.writer),
        locks_(parts, dispatcher),
        index_(parts),
        finder_(parts, scheduler, dispatcher, &locks_, &index_),
        changes_(parts, scheduler, dispatcher, &finder_, &locks_),
        schedule_(parts, scheduler, &finder_, &locks_, &index_, &changes_, &minute_limits_),
        change_(parts, &finder_, &locks_, &changes_),
        queries_(parts, scheduler, dispatcher, &finder_, &locks_),
        bulk_changes_(parts, scheduler, &finder_, &locks_, &index_, &changes_) {}
  MessageCommands(const MessageCommands&) = delete;
  MessageCommands& operator=(const MessageCommands&) = delete;

  void Schedule(base::Now now, protocol::ScheduleCommand command) {
    schedule_.Schedule(now, std::move(command));
  }
  void Cancel(base::Now now, protocol::CancelCommand command) {
    change_.Cancel(now, std::move(command));
  }
  void Reschedule(base::Now now, protocol::RescheduleCommand command) {
    change_.Reschedule(now, std::move(command));
  }
  void Get(base::Now now, protocol::GetCommand command) { queries_.Get(now, std::move(command)); }
  void Inspect(base::Now now, const protocol::InspectCommand& command) {
    queries_.Inspect(now, command);
  }
  void SetTopic(const protocol::TopicCommand& command) {
    minute_limits_.Set(command);
    index_.SetFirstId(command.topic, command.first_id);
  }

  // Answers a command after the shard has failed.
  void Refuse(const protocol::ScheduleCommand& command) { schedule_.Refuse(command); }
  void Refuse(const protocol::CancelCommand& command) { change_.Refuse(command); }
  void Refuse(const protocol::RescheduleCommand& command) { change_.Refuse(command); }
  void Refuse(const protocol::GetCommand& command) { queries_.Refuse(command); }
  void Refuse(const protocol::InspectCommand& command) { queries_.Refuse(command); }

  // The commands that wait for a change of the same message or key.
  size_t waiting() const { return locks_.waiting(); }

  // For bulk operations and recurrences.
  BulkChanges* bulk_changes() { return &bulk_changes_; }
  MessageLocks* locks() { return &locks_; }

 private:
  MinuteLimits minute_limits_;
  MessageLocks locks_;
  KeyIndex index_;
  MessageFinder finder_;
  MessageChanges changes_;
  ScheduleCommands schedule_;
  ChangeCommands change_;
  MessageQueries queries_;
  BulkChanges bulk_changes_;
};

}  // namespace duetime::messages
