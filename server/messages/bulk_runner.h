// SPDX-License-Identifier: Apache-2.0
//
// BulkRunner: operations on many messages, a page at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/messages/bulk_changes.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"
#include "server/scheduler/scheduler.h"

namespace duetime::messages {

// Runs a shard's bulk operations. A page of messages is decided one by one, like the calls of a
// client. One batch holds the changes of a page and the progress of the operation. After a crash
// the operation continues at that progress, and no change is repeated or left out.
//
// An operation covers the messages that were pending when it began. It skips messages that were
// accepted or changed later; otherwise a shift would meet its own messages again. The id decides
// which messages were accepted later, because the clock may be set back.
//
// Cost: at most one page is uncommitted at a time, whatever the number of operations; commands and
// due messages run between pages. Thread safety: confined to the shard's engine thread.
class BulkRunner {
 public:
  // REQUIRES: all pointers outlive it.
  BulkRunner(const delivery::Core& core, BulkChanges* changes, const MessageLocks* locks);

  // Reads the operations, and completes the starts and stops that a crash interrupted. Cost:
  // O(operations), at most operations_max. REQUIRES: no shard has written since the store was
  // opened, because the operations of other shards are read, too: one read for each running one in
  // each other shard.
  absl::Status Recover(base::Now now);

  void Handle(base::Now now, const protocol::OperationCommand& command);

  // Decides a page if an operation runs and no page is uncommitted.
  absl::Status Step(base::Now now);
  // When Step has something to do though no command comes; UINT64_MAX: never.
  uint64_t NextWakeMono() const { return look_mono_ms_; }

  size_t running() const { return running_; }
  // For tests; O(operations).
  void CheckInvariants() const;

 private:
  // Reads the operations of any shard.
  absl::Status ReadOperations(uint16_t shard,
                              const std::function<void(protocol::Operation)>& visit) const;
  // Starts the operations that shard 0 is starting and this shard lacks.
  absl::Status CompleteStarts(base::Now now);
  // Stops the operations that are stopped in another shard.
  absl::Status CompleteStops(base::Now now);
  // In shard 0: ends the starts that have reached all shards, and looks again later for the others.
  absl::Status EndStarts(base::Now now);
  // Looks for the other parts of an operation of this shard. Sets `everywhere` if all other shards
  // have one, and `stopped` if one of these is stopped.
  absl::Status LookAtOthers(const protocol::Operation& operation, bool* everywhere,
                            bool* stopped) const;
  absl::Status Start(base::Now now, const protocol::OperationCommand& command,
                     protocol::Operation* result);
  absl::Status RunPage(base::Now now, protocol::Operation* operation);
  // Decides the message of an operation on one message, and ends the operation in this shard.
  absl::Status RunOne(base::Now now, protocol::Operation* operation);
  // Applies the action. False if the operation has to wait, because a change of the message or of
  // its key is in flight.
  absl::StatusOr<bool> Decide(base::Now now, const storage::MessageRecord& head,
                              const storage::MessageId& id, protocol::Operation* operation);
  void End(base::Now now, protocol::OperationState state, protocol::Operation* operation);
  void Save(const protocol::Operation& operation);
  void Forget(base::Now now);
  // Of the operations that have ended and that a repeat of their request need not find any more,
  // removes the one that started first. The shards agree on that order, but not on that of the
  // ends. False if there is none. `check_only`: removes nothing.
  bool ForgetOldest(base::Now now, bool check_only);

  const delivery::Core& core_;
  const size_t operations_max_;
  const uint64_t repeats_ms_;
  BulkChanges* const changes_;
  const MessageLocks* const locks_;

  // Operations take turns in the order of their names.
  std::map<std::string, protocol::Operation> operations_;
  std::string last_;
  size_t running_ = 0;
  uint64_t last_create_ms_ = 0;
  // When the next operation is to be forgotten.
  uint64_t forget_ms_ = 0;
  // In shard 0: the starts that an earlier run did not end, and when to look at them again.
  std::vector<std::string> starts_;
  uint64_t look_mono_ms_ = UINT64_MAX;
  bool page_under_way_ = false;
  storage::MessageRecord decoded_;
};

}  // namespace duetime::messages
