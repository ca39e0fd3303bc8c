// SPDX-License-Identifier: Apache-2.0
//
// Backoff: how long to wait before trying again.
#pragma once

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace duetime::client {

// The shape of the waits.
struct BackoffOptions {
  // The bound of the first wait.
  absl::Duration initial = absl::Milliseconds(100);
  // No wait is longer, unless the server asked for it.
  absl::Duration max = absl::Seconds(5);
  // Each bound is this many times the one before.
  double multiplier = 2.0;
};

// Exponential backoff with jitter: the n-th wait is drawn evenly from the upper half of its bound,
// so that clients that lost the same server do not come back all at once, and none comes back at
// once.
//
// What it does not do: wait, or read a clock. The same seed gives the same waits.
// Guarantees: (1) every wait is within [bound / 2, bound], where the bound grows from `initial` to
// `max`; (2) a wait the server asked for is never shortened. Thread safety: the caller locks.
class Backoff {
 public:
  // REQUIRES: 0 < initial <= max and multiplier >= 1; what is not is replaced by the nearest value
  // that is.
  Backoff(const BackoffOptions& options, uint64_t seed);

  // The next wait; at least `server_delay`, the one the server asked for (zero if it did not).
  absl::Duration Next(absl::Duration server_delay = absl::ZeroDuration());

  // Begins again with the first wait: something worked.
  void Reset();

 private:
  BackoffOptions options_;
  absl::Duration bound_;
  std::mt19937_64 random_;
};

}  // namespace duetime::client
