// SPDX-License-Identifier: Apache-2.0
//
// ScheduleCommands: a client schedules messages.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/delivery/shard_parts.h"
#include "server/messages/key_index.h"
#include "server/messages/message_changes.h"
#include "server/messages/message_creator.h"
#include "server/messages/message_finder.h"

namespace duetime::messages {

// Decides the messages of a Schedule one by one: create it, or, under a key or a request id that is
// known, what the request says about conflicts.
//
// There is one path. A message without options goes straight to MessageCreator. A message with a
// key or a request id whose entry is in flight waits, without the others of its call. All messages
// of a call that are decided together share one continuation; the call is answered when the last
// one is committed.
//
// Thread safety: confined to the shard's engine thread.
class ScheduleCommands {
 public:
  // REQUIRES: all pointers outlive it.
  ScheduleCommands(const delivery::ShardParts& parts, scheduler::Scheduler* scheduler,
                   MessageFinder* finder, MessageLocks* locks, KeyIndex* index,
                   MessageChanges* changes, const MinuteLimits* minute_limits);

  void Schedule(base::Now now, protocol::ScheduleCommand command);

  // The answer of a shard that has failed.
  void Refuse(const protocol::ScheduleCommand& command);

 private:
  struct Call {
    protocol::ScheduleReply reply;
    // Rounds and waiting messages that are not committed yet.
    size_t open = 0;
  };
  // Messages of a call that are decided together, and what their commit completes.
  struct Round {
    std::shared_ptr<Call> call;
    std::vector<storage::MessageRef> created;
    std::vector<MessageLocks::Name> locked;
  };
  // The message that a request id or a key leads to.
  struct Conflict {
    // Has no id if the names of the request lead nowhere.
    storage::IndexEntry entry;
    // The entry is that of the request id: the request is a repeat.
    bool repeated = false;
    FoundMessage found;
  };

  // Decides the message at `position`. False if it waits instead; `waited`: it has done so before.
  bool Decide(base::Now now, size_t position, protocol::NewMessage* message, bool waited,
              Round* round);
  // Runs Decide again when the change of the name is committed. Refuses the message if too many
  // wait; returns false if it waits.
  bool WaitFor(const MessageLocks::Name& name, size_t position, protocol::NewMessage* message,
               bool waited, Round* round);
  // Adds the continuation of the round to the open batch.
  void Commit(Round round);
  // A round or a waiting message is done; answers the call if it was the last.
  void Finish(Call* call, bool ok);

  // Finds the entry of a name and its message. Returns the name to wait for, if there is one.
  absl::StatusOr<std::optional<MessageLocks::Name>> FindConflict(
      base::Now now, const protocol::NewMessage& message, Conflict* conflict);
  // The answer to a request whose request id is known.
  absl::Status AnswerRepeat(base::Now now, const protocol::ScheduleOptions& options,
                            Conflict* conflict, protocol::AcceptedMessage* answer);
  // Sets the answer to the message that is there.
  absl::Status AnswerExisting(base::Now now, Conflict* conflict, protocol::AcceptedMessage* answer);
  absl::Status DecideKey(base::Now now, protocol::NewMessage* message, Conflict* conflict,
                         protocol::AcceptedMessage* answer, Round* round);
  absl::Status Create(base::Now now, protocol::NewMessage* message,
                      protocol::AcceptedMessage* answer, Round* round);
  // REQUIRES: the message that is there is examined and untouched.
  absl::Status Replace(base::Now now, const protocol::NewMessage& message, const Conflict& conflict,
                       protocol::AcceptedMessage* answer, Round* round);
  // The time of the new revision, as the options say, and how far a full minute may move it.
  static MinuteLimits::Request ReplacedTime(const protocol::ScheduleOptions& options,
                                            const FoundMessage& found, uint64_t asked_ms);
  // Remembers the answer under the request id, if there is one.
  void PutRequest(base::Now now, const protocol::NewMessage& message,
                  const protocol::AcceptedMessage& answer, Round* round);

  scheduler::PendingWrites* const writes_;
  protocol::Effects* const effects_;
  scheduler::Scheduler* const scheduler_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
  KeyIndex* const index_;
  MessageChanges* const changes_;
  const MinuteLimits* const minute_limits_;
  MessageCreator creator_;
};

}  // namespace duetime::messages
