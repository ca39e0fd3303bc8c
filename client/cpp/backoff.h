// SPDX-License-Identifier: Apache-2.0
//
// Backoff: how long to wait before trying again.
#pragma once

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace duetime::client {

// The lengths of the waits.
struct BackoffOptions {
  // The bound of the first wait: at least 50 ms.
  absl::Duration initial = absl::Milliseconds(100);
  // The longest wait, unless the server requests a longer one.
  absl::Duration max = absl::Seconds(5);
  // The factor between successive bounds.
  double multiplier = 2.0;
};

// Exponential backoff with jitter: the n-th wait is drawn evenly from the upper half of its bound,
// so that clients that lost the same server do not reconnect at the same time, and none reconnects
// at once.
//
// It neither waits nor reads a clock. The same seed gives the same waits.
// Guarantees: (1) every wait is within [bound / 2, bound], where the bound grows from `initial` to
// `max`; (2) a wait is never shorter than the server requests. Thread safety: the caller locks.
class Backoff {
 public:
  // REQUIRES: 50 ms <= initial <= max and multiplier >= 1. Other values are replaced by the nearest
  // valid ones, so that no wait is shorter than 25 ms.
  Backoff(const BackoffOptions& options, uint64_t seed);

  // Returns the next wait. It is at least `server_delay`, the delay that the server requested.
  absl::Duration Next(absl::Duration server_delay = absl::ZeroDuration());

  // Starts again with the first wait. Call after a success.
  void Reset();

 private:
  BackoffOptions options_;
  absl::Duration bound_;
  std::mt19937_64 random_;
};

}  // namespace duetime::client
