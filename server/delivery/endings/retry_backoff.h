// SPDX-License-Identifier: Apache-2.0
//
// BackoffMs: the delay of a message after a failed attempt.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "server/base/mix.h"
#include "server/protocol/settings.h"

namespace duetime::delivery {

// The delay after the failed attempt number `attempts` (0 counts as 1), in milliseconds:
//
//   min * multiplier^(attempts - 1), at most max, and up to jitter_percent of that on top
//
// `seed` (of the message) and `attempts` alone decide the jitter. It differs from message to
// message, so that messages that failed together do not all come back together. The jitter never
// shortens a delay, because a policy's delays are promises to the subscriber. Cost: O(1), without
// overflow for any policy within its limits.
inline uint64_t BackoffMs(const protocol::RetryPolicy& policy, uint32_t attempts, uint64_t seed) {
  if (policy.min_backoff_ms() == 0) return 0;
  const uint32_t steps = std::max<uint32_t>(attempts, 1) - 1;
  const double grown = static_cast<double>(policy.min_backoff_ms()) *
                       std::pow(static_cast<double>(policy.multiplier_percent()) / 100.0, steps);
  // After many attempts `grown` may be infinite. The maximum holds then, too.
  const uint64_t delay_ms = grown < static_cast<double>(policy.max_backoff_ms())
                                ? static_cast<uint64_t>(std::round(grown))
                                : policy.max_backoff_ms();
  const uint64_t percent = policy.jitter_percent();
  const uint64_t span_ms = delay_ms / 100 * percent + delay_ms % 100 * percent / 100;
  const uint64_t room_ms = std::min(span_ms, UINT64_MAX - delay_ms);
  return delay_ms + base::Mix(base::Mix(seed) + attempts) % (room_ms + 1);
}

}  // namespace duetime::delivery
