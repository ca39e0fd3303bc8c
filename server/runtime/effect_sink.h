// SPDX-License-Identifier: Apache-2.0
//
// EffectSink: who carries out what shards want done.
#pragma once

#include <cstdint>

#include "server/delivery/commands.h"

namespace duetime::runtime {

// Carries out what shards want done. Deliver is called on engine threads, by several at once for
// different shards; it must not block, since the shard's timer waits for it.
class EffectSink {
 public:
  virtual ~EffectSink() = default;
  virtual void Deliver(uint16_t shard, delivery::Effects effects) = 0;
};

}  // namespace duetime::runtime
