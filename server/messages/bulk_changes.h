// SPDX-License-Identifier: Apache-2.0
//
// BulkChanges: changes single messages for bulk operations and recurrences.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/messages/key_index.h"
#include "server/messages/message_changes.h"
#include "server/messages/message_finder.h"
#include "server/messages/message_locks.h"
#include "server/scheduler/scheduler.h"

namespace duetime::messages {

// Changes one message, without an answer to a client.
//
// Each call returns whether the open batch changes the message. It does not change a message that
// has ended, that is damaged, or that may not be changed any more. An error means that the store
// cannot be read. REQUIRES for each call: no change of the message is in flight. Thread safety:
// confined to the shard's engine thread.
class BulkChanges {
 public:
  // REQUIRES: all pointers outlive it.
  BulkChanges(const delivery::Core& core, MessageFinder* finder, MessageLocks* locks,
              KeyIndex* index, MessageChanges* changes);

  // Finds and examines the message. False if it is not pending or is damaged.
  absl::StatusOr<bool> FindPending(base::Now now, const storage::MessageId& id,
                                   FoundMessage* found);

  // Cancels a message. With `stop_redelivery`, also cancels a message that a subscriber has or may
  // have.
  absl::StatusOr<bool> Cancel(base::Now now, const storage::MessageId& id, bool stop_redelivery);

  // Moves an untouched message. The update time of the message is at least `since_ms`, whatever the
  // clock says.
  absl::StatusOr<bool> Move(base::Now now, const storage::MessageId& id, uint64_t deliver_ms,
                            uint64_t since_ms);

  enum class Redriven { kNo, kYes, kLater };
  // Ends a dead letter, and makes a message of the topic that has the name of its origin, due now.
  // The message gets the key of the origin back, unless the key has a pending message (a later one,
  // or the origin in other subscriptions), or damage hides it. Leaves the dead letter as it is if
  // it is in flight, if no topic has the name, or if that topic is full. kLater: a change of the
  // key, or of the message that it leads to, is in flight.
  absl::StatusOr<Redriven> Redrive(base::Now now, const storage::MessageId& id);

 private:
  // The name of the topic that a dead letter goes back to; empty if it is not known. REQUIRES: it
  // is a dead letter.
  std::string OriginName(const storage::MessageRecord& letter) const;
  // True if a change of the key, or of the message that it leads to, is in flight. False if the key
  // is empty or damaged.
  absl::StatusOr<bool> KeyInFlight(base::Now now, storage::TopicId topic, absl::string_view key);
  // Whether the message made from a dead letter may have the key of the origin. Sets `entry` to the
  // entry of the key. The entry has no id if the key leads nowhere, and no content if the content
  // is not that of the origin. False if damage hides the answer. REQUIRES: not KeyInFlight.
  absl::StatusOr<bool> KeyIsFree(base::Now now, storage::TopicId topic,
                                 const storage::DeadLetterOrigin& origin,
                                 storage::IndexEntry* entry);

  const delivery::Core& core_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
  KeyIndex* const index_;
  MessageChanges* const changes_;
};

}  // namespace duetime::messages
