// SPDX-License-Identifier: Apache-2.0
//
// The linearizability check. It searches for an order of a key's operations in which the sequential
// model gives the recorded answers, and each operation lies between its call and its answer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/crash/linear_history.h"
#include "tests/crash/linear_model.h"

namespace duetime::linear {

struct Verdict {
  enum class Result : uint8_t {
    // An order exists, and nothing is pending at the end.
    kLinearizable,
    // No order exists.
    kNotLinearizable,
    // Orders exist, but each leaves a message pending, so the message was lost.
    kLost,
    // The search ended without a result.
    kTooLarge,
  };
  Result result = Result::kLinearizable;
  // The attempted order, for people. Empty if the history is linearizable.
  std::string text;
  // The visited states, and the longest stretch without a quiet moment.
  size_t steps = 0;
  size_t longest = 0;
};

// Judges the answers about one key over all runs. REQUIRES: the last run ended with a drain, after
// which nothing is left.
//
// The algorithm is Wing and Gong's search with Lowe's memory: depth first over pairs of (operations
// that took effect, state), each visited once. First it cuts each run where no operation is open.
// All states in which a stretch can end are start states of the next one. An unanswered operation
// may take effect at any time until the run is over, or never.
//
// Cost: exponential in the number of concurrent operations, linear otherwise. The search stops
// after `steps_max` pairs.
Verdict Check(const std::vector<Run>& runs, size_t steps_max = 5'000'000);

}  // namespace duetime::linear
