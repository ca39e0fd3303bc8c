// SPDX-License-Identifier: Apache-2.0
//
// ChangeCommands: a client cancels or reschedules a message.
#pragma once

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/messages/message_changes.h"
#include "server/messages/message_finder.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"

namespace duetime::messages {

// Answers Cancel and Reschedule.
//
// A command that meets a change of the message or of its key in flight waits for it, and then
// decides from the store. So each call is one atomic step, and its answer is true at the time of
// the reply. CANCELLED (Outcome::kDone) is answered only after the commit, and only for a message
// that no subscriber has or may have (P3).
//
// Thread safety: confined to the shard's engine thread.
class ChangeCommands {
 public:
  // REQUIRES: all pointers outlive it.
  ChangeCommands(const delivery::Core& core, MessageFinder* finder, MessageLocks* locks,
                 MessageChanges* changes);

  void Cancel(base::Now now, protocol::CancelCommand command);
  void Reschedule(base::Now now, protocol::RescheduleCommand command);

 private:
  // Calls `decide` when no change of the message is in flight. `decide` sets the answer for the
  // message `reply->id`. It returns true if it made a change; then the answer waits for the commit.
  template <typename Command, typename Reply>
  void Run(base::Now now, Command command,
           bool (ChangeCommands::*decide)(base::Now, const Command&, Reply*));
  bool DecideCancel(base::Now now, const protocol::CancelCommand& command,
                    protocol::CancelReply* reply);
  bool DecideReschedule(base::Now now, const protocol::RescheduleCommand& command,
                        protocol::RescheduleReply* reply);
  // REQUIRES: the message is untouched and has the etag that the command names.
  absl::Status ApplyReschedule(base::Now now, const protocol::RescheduleCommand& command,
                               const FoundMessage& found, protocol::RescheduleReply* reply);

  const delivery::Core& core_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
  MessageChanges* const changes_;
};

}  // namespace duetime::messages
