// SPDX-License-Identifier: Apache-2.0
//
// StallWatch: whether every engine still makes turns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/base/mutex.h"

namespace duetime::runtime {

// An idle engine makes a turn at least once a second, so an engine whose count stays the same for
// kLooksMax looks, a second apart, hangs. Counts looks, not time, because after a suspension of the
// machine the first look may come before the first turn. Thread-safe.
class StallWatch {
 public:
  static constexpr int kLooksMax = 20;

  // Compares the engines' counts of turns with those of the last look.
  void Look(const std::vector<uint64_t>& turns);
  // Empty, or the engine that hangs: "shard 3 makes no progress".
  std::string Trouble() const;

 private:
  struct Engine {
    uint64_t turns = 0;
    int same = 0;
  };

  mutable base::Mutex mutex_;
  std::vector<Engine> engines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::runtime
