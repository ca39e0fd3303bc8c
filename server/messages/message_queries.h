// SPDX-License-Identifier: Apache-2.0
//
// MessageQueries: a client asks for one message, or for the states of a page of messages.
#pragma once

#include "server/base/clock.h"
#include "server/delivery/shard_parts.h"
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
  MessageQueries(const delivery::ShardParts& parts, const scheduler::Scheduler* scheduler,
                 delivery::Dispatcher* dispatcher, MessageFinder* finder, MessageLocks* locks);

  void Get(base::Now now, protocol::GetCommand command);
  void Inspect(base::Now now, const protocol::InspectCommand& command);

  // Answers a command after the shard has failed.
  void Refuse(const protocol::GetCommand& command);
  void Refuse(const protocol::InspectCommand& command);

 private:
  void FillReply(base::Now now, const protocol::Target& target, FoundMessage* found,
                 protocol::GetReply* reply);
  // REQUIRES: the message is pending.
  void FillTimeline(const FoundMessage& found, protocol::GetReply* reply);
  protocol::InspectedMessage StateOfKey(base::Now now, const storage::MessageKey& key) const;

  protocol::Effects* const effects_;
  const scheduler::Scheduler* const scheduler_;
  delivery::Dispatcher* const dispatcher_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
};

}  // namespace duetime::messages
