// SPDX-License-Identifier: Apache-2.0
//
// TopicScope: the topics that a command may touch.
#pragma once

#include <memory>

#include "storage/types.h"

namespace duetime::protocol {

// A command that names its object by id, or by a name without topic, finds nothing outside of its
// scope: only the shard knows the topic of the object, and a refusal would tell that the object
// exists. Immutable and thread-safe; `Covers` does not block.
class TopicScope {
 public:
  virtual ~TopicScope() = default;
  virtual bool Covers(storage::TopicId topic) const = 0;
};

// Null: all topics.
using TopicScopePtr = std::shared_ptr<const TopicScope>;

inline bool InScope(const TopicScopePtr& scope, storage::TopicId topic) {
  return scope == nullptr || scope->Covers(topic);
}

}  // namespace duetime::protocol
