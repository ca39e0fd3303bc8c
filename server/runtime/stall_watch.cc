// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/stall_watch.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace duetime::runtime {

void StallWatch::Look(const std::vector<uint64_t>& turns) {
  const base::MutexLock lock(&mutex_);
  engines_.resize(turns.size());
  for (size_t i = 0; i < turns.size(); ++i) {
    Engine& engine = engines_[i];
    engine.same = engine.turns == turns[i] ? engine.same + 1 : 0;
    engine.turns = turns[i];
  }
}

std::string StallWatch::Trouble() const {
  const base::MutexLock lock(&mutex_);
  for (size_t i = 0; i < engines_.size(); ++i) {
    if (engines_[i].same >= kLooksMax) return absl::StrCat("shard ", i, " makes no progress");
  }
  return "";
}

}  // namespace duetime::runtime
