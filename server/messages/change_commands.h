// SPDX-License-Identifier: Apache-2.0
//
// ChangeCommands: a client cancels or reschedules a message.
#pragma once

#include "server/base/clock.h"
#include "server/delivery/shard_parts.h"
#include "server/messages/message_changes.h"
#include "server/messages/message_finder.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"

namespace duetime::messages {

// Answers Cancel and Reschedule.
//
// Each decision is made from the store, with no change of the message or of its key in flight: a
// command that meets one waits for it. So each call is one atomic step, and its answer is true when
// it is given. CANCELLED (Outcome::kDone) is answered only after the commit, and only for a message
// that no subscriber has or may have (P3).
//
// Thread safety: confined to the shard's engine thread.
class ChangeCommands {
 public:
  // REQUIRES: all pointers outlive it.
  ChangeCommands(const delivery::ShardParts& parts, MessageFinder* finder, MessageLocks* locks,
                 MessageChanges* changes);

  void Cancel(base::Now now, protocol::CancelCommand command);
  void Reschedule(base::Now now, protocol::RescheduleCommand command);

  // Answers a CancelCommand or a RescheduleCommand for a shard that has failed.
  template <typename Command>
  void Refuse(const Command& command);

 private:
  // Calls `decide` when no change of the message is in flight. It decides about a message that is
  // known, and sets the answer; true if it made a change, so that the answer waits for the commit.
  template <typename Command, typename Reply>
  void Run(base::Now now, Command command,
           bool (ChangeCommands::*decide)(base::Now, const Command&, Reply*));
  bool DecideCancel(base::Now now, const protocol::CancelCommand& command,
                    protocol::CancelReply* reply);
  bool DecideReschedule(base::Now now, const protocol::RescheduleCommand& command,
                        protocol::RescheduleReply* reply);
  // The message is untouched and has the revision that the command names.
  absl::Status ApplyReschedule(base::Now now, const protocol::RescheduleCommand& command,
                               const FoundMessage& found, protocol::RescheduleReply* reply);

  scheduler::PendingWrites* const writes_;
  protocol::Effects* const effects_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
  MessageChanges* const changes_;
};

}  // namespace duetime::messages
