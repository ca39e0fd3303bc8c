// SPDX-License-Identifier: Apache-2.0
//
// MessageQueries: a client asks for one message, or for the states of a page of messages.
#pragma once

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/messages/message_finder.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"

namespace duetime::messages {

// Answers Get and Inspect. Changes nothing.
//
// If a change of the message is in flight, Get waits for it, so that the answer agrees with the
// store. Inspect does not wait: it returns the states of messages that a list has just read. Thread
// safety: confined to the shard's engine thread.
class MessageQueries {
 public:
  // REQUIRES: all pointers outlive it.
  MessageQueries(const delivery::Core& core, const delivery::MessageEnds* ends,
                 MessageFinder* finder, MessageLocks* locks);

  void Get(base::Now now, protocol::GetCommand command);
  void Inspect(base::Now now, const protocol::InspectCommand& command);

 private:
  void FillReply(base::Now now, const protocol::Target& target, FoundMessage* found,
                 protocol::GetReply* reply);
  // REQUIRES: the message is pending.
  void FillTimeline(const FoundMessage& found, protocol::GetReply* reply);
  protocol::InspectedMessage StateOfKey(base::Now now, const storage::MessageKey& key) const;

  const delivery::Core& core_;
  const delivery::MessageEnds* const ends_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
};

}  // namespace duetime::messages
