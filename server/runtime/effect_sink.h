// SPDX-License-Identifier: Apache-2.0
//
// EffectSink: receives the effects of shards, and the catalog's answers.
#pragma once

#include <cstdint>
#include <vector>

#include "server/catalog/commands.h"
#include "server/protocol/replies.h"

namespace duetime::runtime {

// Carries out the effects of shards, and takes the catalog's answers to clients' requests. Engine
// threads call Deliver, several at a time for different shards. The catalog's thread calls Answer.
// Neither may block, because a blocked engine thread delays due messages.
class EffectSink {
 public:
  virtual ~EffectSink() = default;
  virtual void Deliver(uint16_t shard, protocol::Effects effects) = 0;
  // `failed`: the catalog found that the journal has failed (P7).
  virtual void Answer(std::vector<catalog::Reply> replies, bool failed) = 0;
};

}  // namespace duetime::runtime
