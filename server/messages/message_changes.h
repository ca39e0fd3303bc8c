// SPDX-License-Identifier: Apache-2.0
//
// MessageChanges: the records that end or move a pending message.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/occurrence_sink.h"
#include "server/messages/message_finder.h"
#include "server/messages/message_locks.h"
#include "server/scheduler/scheduler.h"
#include "storage/message_record.h"

namespace duetime::messages {

// A new revision of a pending message.
struct MessageRevision {
  // Encodes the record as its next revision. `update_ms`: the time of the change.
  MessageRevision(storage::MessageRecord record, uint64_t update_ms);

  uint64_t deliver_ms = 0;
  uint8_t flags = 0;
  std::string bytes;
};

// Ends and moves messages that MessageFinder has found and examined.
//
// Each change takes the message from its subscriptions, adds its records to the open batch and
// locks the message. A second move in the same batch only replaces the record of the first one.
// Until the commit the message may become due or may be read back from the backlog; the lock keeps
// it from being handed out.
//
// An error means that the store cannot be read. The shard then fails and never writes the open
// batch. Thread safety: confined to the shard's engine thread.
class MessageChanges {
 public:
  // REQUIRES: all pointers outlive it.
  MessageChanges(const delivery::Core& core, delivery::MessageEnds* ends, MessageFinder* finder,
                 MessageLocks* locks);

  // Cancels the message. If it is an occurrence, its recurrence makes the next one in the same
  // batch. REQUIRES: `found` is examined; nothing locks the message.
  absl::Status Cancel(base::Now now, const FoundMessage& found, bool redelivery_stopped);

  // Ends the message with the state `how`. REQUIRES: as above.
  absl::Status End(base::Now now, const FoundMessage& found, storage::EndState how,
                   bool redelivery_stopped);

  // Replaces the message by the revision. If the message was found in the open batch, replaces it
  // there. REQUIRES: as above, and the message is untouched.
  absl::Status Move(base::Now now, const FoundMessage& found, MessageRevision revision);

 private:
  // Adds a change to a move of the open batch.
  void MoveAgain(base::Now now, const FoundMessage& found, const storage::MessageRef& to,
                 std::string record);
  // Adds a locator that leads to the message, unless its id does.
  void PutLocator(const storage::MessageKey& key);
  void FinishMove(base::Now now, const storage::MessageId& id, bool ok);

  const delivery::Core& core_;
  delivery::MessageEnds* const ends_;
  MessageFinder* const finder_;
  MessageLocks* const locks_;
};

}  // namespace duetime::messages
