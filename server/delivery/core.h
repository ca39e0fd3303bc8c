// SPDX-License-Identifier: Apache-2.0
//
// Core: what the parts of a shard work with.
#pragma once

#include <cstdint>
#include <utility>

#include "server/base/clock.h"
#include "server/base/error.h"
#include "server/delivery/shard_parts.h"
#include "server/protocol/replies.h"
#include "server/scheduler/pending_writes.h"

namespace duetime::scheduler {
class Scheduler;
}  // namespace duetime::scheduler

namespace duetime::delivery {

// The parts, for the headers of those that call them.
class Backlog;
class BacklogReader;
class CleanStop;
class DeadLetters;
class DeliveryRecords;
class DeliveryStates;
class DeliveryTimers;
class Expiry;
class HandOut;
class LeaseEnds;
class Leases;
class MemoryShare;
class MessageEnds;
class MessageStatus;
class OccurrenceSink;
class Offers;
class Pacing;
class PendingDeliveries;
class Retention;
class Retries;
class StoreReader;
class Streams;
class SubscriptionChanges;
class SubscriptionFill;
class SubscriptionRelease;
class Subscriptions;
class Turns;

// The objects of one shard that hold or move something, and decide nothing. Whatever decides is an
// argument of its own in the constructors. In the order of README.md: each calls only those before
// it. Outlives the parts. Thread safety: confined to the engine thread.
struct Core {
  uint16_t shard = 0;
  ShardLimits limits;
  storage::MessageStore& store;
  scheduler::PendingWrites& writes;
  scheduler::MessageWriter& writer;
  scheduler::KeyLocks& key_locks;
  protocol::Effects& effects;
  protocol::ShardStats& stats;
  TopicNames& names;
  scheduler::Scheduler& scheduler;
  // The one call that goes up: RecurrenceEngine makes the next occurrence in the batch of the last.
  // Set before the first step.
  OccurrenceSink* occurrences = nullptr;

  StoreReader& reader;
  DeliveryRecords& records;
  PendingDeliveries& table;
  MemoryShare& memory;
  Subscriptions& subscriptions;
  DeliveryTimers& timers;
  Turns& turns;
  Streams& streams;
  Leases& leases;
  DeliveryStates& states;
  Backlog& backlog;

  void Answer(protocol::Reply reply) const { effects.replies.push_back(std::move(reply)); }

  // Answers when the open batch is committed, with STORAGE_FAILED if it is not.
  template <typename Reply>
  void AnswerAfterCommit(Reply reply) const {
    writes.Then([&replies = effects.replies, reply = std::move(reply)](base::Now, bool ok) mutable {
      if (!ok) reply.status = base::StorageFailedError();
      replies.push_back(std::move(reply));
    });
  }
};

}  // namespace duetime::delivery
