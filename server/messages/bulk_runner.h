// SPDX-License-Identifier: Apache-2.0
//
// BulkRunner: operations on many messages, a page at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/messages/bulk_changes.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"

namespace duetime::messages {

// Runs a shard's bulk operations. A page of messages is decided one by one, as the calls of a
// client would be, and how far the operation is goes into the same batch: after a crash it goes on
// where it was, and nothing is done twice or left out.
//
// An operation covers the messages that were pending when it began: messages that were accepted or
// changed later are left alone, or a shift would meet its own messages again further on.
//
// Cost: one page is under way at a time, whatever the number of operations; commands and due
// messages go in between. Thread safety: confined to the shard's engine thread.
class BulkRunner {
 public:
  // REQUIRES: all pointers outlive it.
  BulkRunner(const delivery::ShardParts& parts, BulkChanges* changes, const MessageLocks* locks);

  // Reads the operations. Cost: O(operations), at most operations_max.
  absl::Status Recover(base::Now now);

  void Handle(base::Now now, const protocol::OperationCommand& command);
  void Refuse(const protocol::OperationCommand& command);

  // Decides a page, if there is something to do and none is under way.
  absl::Status Step(base::Now now);

  size_t running() const { return running_; }

 private:
  absl::Status Start(base::Now now, const protocol::OperationCommand& command,
                     protocol::Operation* result);
  absl::Status RunPage(base::Now now, protocol::Operation* operation);
  absl::Status Apply(base::Now now, const storage::MessageRecord& head,
                     const storage::MessageId& id, protocol::Operation* operation);
  void End(base::Now now, protocol::OperationState state, protocol::Operation* operation);
  void Save(const protocol::Operation& operation);
  void Forget(base::Now now);

  const uint16_t shard_;
  const size_t operations_max_;
  storage::MessageStore* const store_;
  scheduler::PendingWrites* const writes_;
  scheduler::MessageWriter* const writer_;
  protocol::Effects* const effects_;
  BulkChanges* const changes_;
  const MessageLocks* const locks_;

  // In the order of names, so that they take turns.
  std::map<std::string, protocol::Operation> operations_;
  std::string last_;
  size_t running_ = 0;
  uint64_t last_create_ms_ = 0;
  bool page_under_way_ = false;
  storage::MessageRecord decoded_;
};

}  // namespace duetime::messages
