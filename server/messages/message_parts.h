// SPDX-License-Identifier: Apache-2.0
//
// MessageParts: makes and connects the parts of this room.
#pragma once

#include "server/delivery/core.h"
#include "server/messages/bulk_changes.h"
#include "server/messages/change_commands.h"
#include "server/messages/message_queries.h"
#include "server/messages/schedule_commands.h"

namespace duetime::messages {

// The parts that decide what clients ask of messages.
//
//   ScheduleCommands   Schedule        MessageCreator, MinuteLimits
//   ChangeCommands     Cancel, Reschedule
//   MessageQueries     Get, Inspect
//   BulkChanges        changes without an answer, for bulk operations and recurrences
//   below them         MessageFinder (where a message is), MessageChanges (the records of a
//                      change), KeyIndex (names), MessageLocks (one change at a time)
//
// Thread safety: confined to the shard's engine thread.
struct MessageParts {
  // REQUIRES: all of them outlive it.
  MessageParts(const delivery::Core& core, delivery::MessageEnds* ends,
               delivery::MessageStatus* status)
      : minute_limits(core.store.shard_count(), &core.writer),
        locks(core, ends),
        index(core),
        finder(core, status, &locks, &index),
        changes(core, ends, &finder, &locks),
        schedule(core, &finder, &locks, &index, &changes, &minute_limits),
        change(core, &finder, &locks, &changes),
        queries(core, ends, &finder, &locks),
        bulk_changes(core, &finder, &locks, &index, &changes) {}
  MessageParts(const MessageParts&) = delete;
  MessageParts& operator=(const MessageParts&) = delete;

  MinuteLimits minute_limits;
  MessageLocks locks;
  KeyIndex index;
  MessageFinder finder;
  MessageChanges changes;
  ScheduleCommands schedule;
  ChangeCommands change;
  MessageQueries queries;
  BulkChanges bulk_changes;
};

}  // namespace duetime::messages
