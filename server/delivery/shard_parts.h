// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "server/delivery/commands.h"
#include "server/delivery/shard.h"
#include "server/delivery/shard_stats.h"
#include "server/scheduler/latches.h"
#include "server/scheduler/message_writer.h"
#include "server/scheduler/outbox.h"
#include "server/wheel/slab_memory.h"
#include "storage/message_store.h"

namespace duetime::delivery {

class OccurrenceSink;

// What the parts of a shard share. All of it outlives them.
struct ShardParts {
  uint16_t shard = 0;
  const ShardLimits* limits = nullptr;
  storage::MessageStore* store = nullptr;
  scheduler::Outbox* outbox = nullptr;
  scheduler::MessageWriter* writer = nullptr;
  scheduler::Latches* latches = nullptr;
  OccurrenceSink* occurrences = nullptr;
  Effects* effects = nullptr;
  ShardStats* stats = nullptr;
  wheel::SlabMemory* slabs = nullptr;
};

}  // namespace duetime::delivery
