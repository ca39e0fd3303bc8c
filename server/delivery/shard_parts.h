// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "server/delivery/shard_limits.h"
#include "server/protocol/replies.h"
#include "server/protocol/shard_stats.h"
#include "server/scheduler/key_locks.h"
#include "server/scheduler/message_writer.h"
#include "server/scheduler/pending_writes.h"
#include "server/wheel/slab_memory.h"
#include "storage/message_store.h"

namespace duetime::delivery {

class TopicNames;

// The objects that the parts of a shard share. All objects outlive the parts, except `limits`,
// which only the constructors read.
struct ShardParts {
  uint16_t shard = 0;
  const delivery::ShardLimits* limits = nullptr;
  storage::MessageStore* store = nullptr;
  scheduler::PendingWrites* writes = nullptr;
  scheduler::MessageWriter* writer = nullptr;
  scheduler::KeyLocks* key_locks = nullptr;
  protocol::Effects* effects = nullptr;
  protocol::ShardStats* stats = nullptr;
  TopicNames* names = nullptr;
  wheel::SlabMemory* slabs = nullptr;
};

}  // namespace duetime::delivery
