// SPDX-License-Identifier: Apache-2.0
//
// MessageLocks: one change at a time for each message, each key and each request id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/endings/message_ends.h"
#include "server/scheduler/key_locks.h"
#include "storage/message_store.h"

namespace duetime::messages {

// Says whether a change of a message, or of a name that leads to it, is in flight, and lets
// commands wait for the end of that change.
//
// A change is in flight from the decision until its batch is committed. Two things hold a message:
// a lock in KeyLocks, which the commands of this room take, and a settlement that delivery
// has begun. A command that waits runs again after the commit, and then decides from the store.
//
// A Schedule may join a move of the open batch: it decides on what that move leaves, and changes
// the record that the batch holds. So all Schedules that wait for one key share one write, and no
// decision relies on a batch that may fail without it.
//
// Bound: ShardLimits::waiting_max commands wait; more are refused (OVERLOADED). Thread safety:
// confined to the shard's engine thread.
class MessageLocks {
 public:
  using Name = scheduler::KeyLocks::Name;
  using Waiter = scheduler::KeyLocks::Waiter;
  using Kind = scheduler::KeyLocks::Kind;

  // A move of a message that is not committed yet.
  struct Move {
    // The batch that holds the message's record, and the position of the record there.
    uint64_t batch = 0;
    size_t position = 0;
    // The place in the store, and what Scheduler::OnMoved must know of it.
    storage::MessageKey from;
    bool loaded = false;
    uint64_t restarts = 0;
    // The place in the batch.
    storage::MessageRef to;
    // The entry of the message's key, if the batch changes it.
    std::optional<storage::IndexEntry> key_entry;
    // The changes in the batch, and the sizes of the records that they wrote one after the other.
    uint64_t changes = 1;
    uint64_t bytes = 0;
  };
  // A move of so many changes or bytes is full: a bound for the work of one step.
  static constexpr uint64_t kChangesMax = 1'000;
  static constexpr uint64_t kBytesMax = 4 << 20;

  // REQUIRES: all pointers outlive it.
  MessageLocks(const delivery::Core& core, const delivery::MessageEnds* ends);

  static Name KeyName(storage::TopicId topic, absl::string_view key);
  // `name`: KeyIndex::RequestName.
  static Name RequestName(storage::TopicId topic, absl::string_view name);

  bool Locked(const Name& name) const { return core_.key_locks.Locked(name); }
  // True if a change of the message is in flight, its settlement included.
  bool ChangeInFlight(const storage::MessageId& id) const;

  // The commands that wait now.
  size_t waiting() const { return core_.key_locks.waiting() + for_settlements_; }
  // OVERLOADED if waiting_max commands wait already.
  absl::Status CheckRoom() const;
  // Runs `waiter` when the change in flight is committed, with `ok` false if the shard has failed.
  // A waiter that joins, or reads, may also run earlier or later, as KeyLocks says. REQUIRES: the
  // name is locked, or it is the name of a message whose settlement is in flight.
  void Wait(const Name& name, Waiter waiter, Kind kind = Kind::kChange);

  // REQUIRES: not locked.
  void Lock(const Name& name) { core_.key_locks.Acquire(name); }
  // Runs the waiters of the name. REQUIRES: locked.
  void Unlock(base::Now now, const Name& name, bool ok);

  // Locks a new message and its key, and adds both names to `locked`. The store may show the
  // message before the shard learns of the commit. The message must not end until then, because its
  // end also changes the entry of its key, which is locked. REQUIRES: neither is locked.
  void LockCreated(const storage::MessageId& id, storage::TopicId topic, absl::string_view key,
                   std::vector<Name>* locked);

  // Locks the message that is moved in the open batch. REQUIRES: not locked.
  void LockMoved(const storage::MessageId& id, const Move& move);
  // Ends the move after its commit; Unlock follows. REQUIRES: LockMoved.
  Move EndMove(const storage::MessageId& id);
  // The move of this message in the open batch, or nullptr if there is none or if another command
  // waits for the message. Valid until the next call.
  Move* FindOpenMove(const storage::MessageId& id);
  // As FindOpenMove, or nullptr if the move is full: then a Schedule must wait.
  const Move* FindMoveToJoin(const storage::MessageId& id);
  // The record of the moved message. REQUIRES: the move is of the open batch.
  absl::string_view RecordOf(const Move& move) const;

  // For tests; O(moves).
  void CheckInvariants() const;

 private:
  bool InOpenBatch(const Name& name) const;

  const delivery::Core& core_;
  const delivery::MessageEnds* const ends_;
  const size_t waiting_max_;
  // Commands that wait for a settlement. The others wait in Core::key_locks.
  size_t for_settlements_ = 0;
  // By the name of the message. Each has a lock.
  absl::flat_hash_map<Name, Move> moves_;
};

}  // namespace duetime::messages
