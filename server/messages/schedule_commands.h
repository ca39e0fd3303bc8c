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
#include "server/delivery/core.h"
#include "server/messages/key_index.h"
#include "server/messages/message_changes.h"
#include "server/messages/message_creator.h"
#include "server/messages/message_finder.h"

namespace duetime::messages {

// Decides the messages of a Schedule one by one. Creates a new message, or does what the request
// says about conflicts if its key or its request id is known.
//
// A message without options goes straight to MessageCreator. If the entry of a key or of a request
// id is in flight, its message waits, but the other messages of the call do not. A message whose
// key leads to a message that is moved in the open batch does not wait: it is decided on what that
// move leaves (MessageLocks). All messages of a call that are decided together share one
// continuation. The call is answered when its last message is committed.
//
// Thread safety: confined to the shard's engine thread.
class ScheduleCommands {
 public:
  // REQUIRES: all pointers outlive it.
  ScheduleCommands(const delivery::Core& core, MessageFinder* finder, MessageLocks* locks,
                   KeyIndex* index, MessageChanges* changes, const MinuteLimits* minute_limits);

  void Schedule(base::Now now, protocol::ScheduleCommand command);

 private:
  struct Call {
    protocol::ScheduleReply reply;
    // Rounds and waiting messages that are not committed yet.
    size_t open = 0;
  };
  // Messages of a call that are decided and committed together.
  struct Round {
    std::shared_ptr<Call> call;
    std::vector<storage::MessageRef> created;
    std::vector<MessageLocks::Name> locked;
  };
  // The message that a request id or a key leads to.
  struct Conflict {
    // Has no id if neither the request id nor the key leads to a message.
    storage::IndexEntry entry;
    // The entry is that of the request id: the request is a repeat.
    bool repeated = false;
    FoundMessage found;
  };

  // Decides the message at `position`. False if the message waits instead. `waited`: the message
  // has waited before.
  bool Decide(base::Now now, size_t position, protocol::NewMessage* message, bool waited,
              Round* round);
  // Makes the message wait until the change of the name is committed, and runs Decide again then.
  // If too many commands wait, refuses the message and returns true; otherwise returns false.
  bool WaitFor(const MessageLocks::Name& name, size_t position, protocol::NewMessage* message,
               bool waited, Round* round);
  // Adds the continuation of the round to the open batch.
  void Commit(Round round);
  // Ends a round or a waiting message, and answers the call if it was the last one.
  void Finish(Call* call, bool ok);

  // Finds the entry of a name and its message. Returns the name to wait for, if there is one.
  absl::StatusOr<std::optional<MessageLocks::Name>> FindConflict(
      base::Now now, const protocol::NewMessage& message, Conflict* conflict);
  // Sets the answer to a request whose request id is known.
  absl::Status AnswerRepeat(base::Now now, const protocol::NewMessage& message, Conflict* conflict,
                            protocol::AcceptedMessage* answer);
  // Sets the answer from the existing message.
  absl::Status AnswerExisting(base::Now now, Conflict* conflict, protocol::AcceptedMessage* answer);
  absl::Status DecideKey(base::Now now, protocol::NewMessage* message, Conflict* conflict,
                         protocol::AcceptedMessage* answer, Round* round);
  // Answers with the message that has the key, if the request has the same content; otherwise
  // returns CONTENT_MISMATCH.
  absl::Status KeepExisting(base::Now now, const protocol::NewMessage& message, Conflict* conflict,
                            protocol::AcceptedMessage* answer, Round* round);
  absl::Status Create(base::Now now, protocol::NewMessage* message,
                      protocol::AcceptedMessage* answer, Round* round);
  // REQUIRES: the existing message is examined and untouched.
  absl::Status Replace(base::Now now, const protocol::NewMessage& message, const Conflict& conflict,
                       protocol::AcceptedMessage* answer, Round* round);
  // The time of the new revision according to the options, and the latest time to which a full
  // minute may move it.
  static MinuteLimits::Request ReplacedTime(const protocol::ScheduleOptions& options,
                                            const FoundMessage& found, uint64_t asked_ms);
  // Keeps the answer under the request id, if there is one.
  void PutRequest(base::Now now, const protocol::NewMessage& message,
                  const protocol::AcceptedMessage& answer, Round* round);

  const delivery::Core& core_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
  KeyIndex* const index_;
  MessageChanges* const changes_;
  const MinuteLimits* const minute_limits_;
  MessageCreator creator_;
};

}  // namespace duetime::messages
