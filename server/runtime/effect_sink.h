// SPDX-License-Identifier: Apache-2.0
//
// EffectSink: receives the effects of shards.
#pragma once

#include <cstdint>

#include "server/protocol/replies.h"

namespace duetime::runtime {

// Carries out the effects of shards. Engine threads call Deliver, several at a time for different
// shards. Deliver must not block, because the shard's timer waits for it.
class EffectSink {
 public:
  virtual ~EffectSink() = default;
  virtual void Deliver(uint16_t shard, protocol::Effects effects) = 0;
};

}  // namespace duetime::runtime
