// SPDX-License-Identifier: Apache-2.0
//
// MessageLocks: one change at a time for each message, each key and each request id.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/shard_parts.h"
#include "server/scheduler/key_locks.h"

namespace duetime::messages {

// Says whether a change of a message, or of a name that leads to it, is in flight, and lets
// commands wait for the end of that change.
//
// A change is in flight from the decision until its batch is committed. Two things hold a message:
// a lock in KeyLocks, which the commands of this room take, and a settlement that the dispatcher
// has begun. A command that waits runs again after the commit, and then decides from the store.
//
// Bound: ShardLimits::waiting_max commands wait; more are refused (OVERLOADED). Thread safety:
// confined to the shard's engine thread.
class MessageLocks {
 public:
  using Name = scheduler::KeyLocks::Name;
  using Waiter = scheduler::KeyLocks::Waiter;

  // REQUIRES: all pointers outlive it.
  MessageLocks(const delivery::ShardParts& parts, const delivery::Dispatcher* dispatcher);

  static Name KeyName(storage::TopicId topic, absl::string_view key);
  static Name RequestName(storage::TopicId topic, absl::string_view request_id);

  bool Locked(const Name& name) const { return key_locks_->Held(name); }
  // True if a change of the message is in flight, its settlement included.
  bool ChangeInFlight(const storage::MessageId& id) const;

  // The commands that wait now.
  size_t waiting() const { return key_locks_->waiting() + for_settlements_; }
  // OVERLOADED if waiting_max commands wait already.
  absl::Status CheckRoom() const;
  // Runs `waiter` when the change in flight is committed, with `ok` false if the shard has failed.
  // REQUIRES: the name is locked, or it is the name of a message whose settlement is in flight.
  void Wait(const Name& name, Waiter waiter);

  // REQUIRES: not locked.
  void Lock(const Name& name) { key_locks_->Acquire(name); }
  // Runs the waiters of the name. REQUIRES: locked.
  void Unlock(base::Now now, const Name& name, bool ok) { key_locks_->Release(now, name, ok); }

 private:
  const size_t waiting_max_;
  scheduler::KeyLocks* const key_locks_;
  scheduler::PendingWrites* const writes_;
  const delivery::Dispatcher* const dispatcher_;
  // Commands that wait for a settlement. The others wait in `key_locks_`.
  size_t for_settlements_ = 0;
};

}  // namespace duetime::messages
