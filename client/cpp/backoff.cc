// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/backoff.h"

#include <algorithm>

namespace duetime::client {

namespace {

// A server that is down must not cost the client's machine a core.
constexpr absl::Duration kBoundMin = absl::Milliseconds(50);

}  // namespace

Backoff::Backoff(const BackoffOptions& options, uint64_t seed) : options_(options), random_(seed) {
  options_.initial = std::max(options_.initial, kBoundMin);
  options_.max = std::max(options_.max, options_.initial);
  options_.multiplier = std::max(options_.multiplier, 1.0);
  Reset();
}

absl::Duration Backoff::Next(absl::Duration server_delay) {
  std::uniform_real_distribution<double> fraction(0.5, 1.0);
  const absl::Duration wait = bound_ * fraction(random_);
  bound_ = std::min(bound_ * options_.multiplier, options_.max);
  // The jitter comes on top of the server's delay, because many clients got the same delay.
  if (server_delay > absl::ZeroDuration()) return server_delay + wait;
  return wait;
}

void Backoff::Reset() { bound_ = options_.initial; }

}  // namespace duetime::client
