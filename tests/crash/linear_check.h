// SPDX-License-Identifier: Apache-2.0
//
// The linearizability check: is there an order of a key's operations, each between its call and its
// answer, in which the sequential model gives the answers that were given?
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/crash/linear_history.h"
#include "tests/crash/linear_model.h"

namespace duetime::linear {

struct Verdict {
  enum class Result : uint8_t {
    // There is such an order, and in the end nothing is pending.
    kLinearizable,
    // There is none.
    kNotLinearizable,
    // There is one, but each leaves a message pending: it was lost.
    kLost,
    // The search ended without a result.
    kTooLarge,
  };
  Result result = Result::kLinearizable;
  // What was tried, for people; empty if all is well.
  std::string text;
  // The states visited, and the longest stretch without a quiet moment.
  size_t steps = 0;
  size_t longest = 0;
};

// Judges the answers about one key over all runs. The last one must have ended with a drain, after
// which nothing is left.
//
// The search is that of Wing and Gong with Lowe's memory: depth first over the pairs of (operations
// that took effect, state), each visited once. Before it, each run is cut where no operation is
// open; then all states in which a stretch can end are where the next one may begin. Operations
// without an answer may take effect until the run is over, or never.
//
// Cost: exponential in the operations that are open at the same time, linear in all else; given up
// after `steps_max` pairs.
Verdict Check(const std::vector<Run>& runs, size_t steps_max = 5'000'000);

}  // namespace duetime::linear
