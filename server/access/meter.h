// SPDX-License-Identifier: Apache-2.0
//
// Meter: how much a principal, or a topic, has used of its quota.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"

#include "server/base/mutex.h"

namespace duetime::access {

// A rate with a burst of one second. What is taken may exceed the burst, as long as nothing is owed
// from before: otherwise a batch of more than a second's worth could never pass. So the mean rate
// holds, and base::TokenBucket, which never grants more than it has, does not fit.
class RateMeter {
 public:
  // Returns 0 if `amount` was taken, else the milliseconds until something may be taken.
  // REQUIRES: rate > 0.
  uint64_t Take(uint64_t mono_ms, uint64_t rate, uint64_t amount) {
    const uint64_t wait = Wait(mono_ms);
    if (wait == 0) {
      constexpr double kMicros = 1e6;
      const auto cost =
          static_cast<uint64_t>(static_cast<double>(amount) * kMicros / static_cast<double>(rate));
      paid_at_us_ = std::max(paid_at_us_, mono_ms * kMicrosPerMs) + cost;
    }
    return wait;
  }
  // The milliseconds until something may be taken.
  uint64_t Wait(uint64_t mono_ms) const {
    const uint64_t limit = mono_ms * kMicrosPerMs + kBurstUs;
    return paid_at_us_ <= limit ? 0 : (paid_at_us_ - limit + kMicrosPerMs - 1) / kMicrosPerMs;
  }

 private:
  static constexpr uint64_t kMicrosPerMs = 1'000;
  static constexpr uint64_t kBurstUs = 1'000'000;

  uint64_t paid_at_us_ = 0;
};

// Thread-safe.
class Meter {
 public:
  struct Rates {
    uint64_t messages_per_second = 0;
    uint64_t bytes_per_second = 0;
  };
  enum class Limit : uint8_t { kNone, kMessages, kBytes };
  struct Verdict {
    Limit limit = Limit::kNone;
    uint64_t wait_ms = 0;
  };

  // Takes messages and bytes, or neither. A rate of 0 is no limit.
  Verdict Take(uint64_t mono_ms, const Rates& rates, uint64_t messages, uint64_t bytes) {
    const base::MutexLock lock(&mutex_);
    const uint64_t for_messages = rates.messages_per_second == 0 ? 0 : messages_.Wait(mono_ms);
    if (for_messages > 0) return {.limit = Limit::kMessages, .wait_ms = for_messages};
    const uint64_t for_bytes = rates.bytes_per_second == 0 ? 0 : bytes_.Wait(mono_ms);
    if (for_bytes > 0) return {.limit = Limit::kBytes, .wait_ms = for_bytes};
    if (rates.messages_per_second != 0) {
      messages_.Take(mono_ms, rates.messages_per_second, messages);
    }
    if (rates.bytes_per_second != 0) bytes_.Take(mono_ms, rates.bytes_per_second, bytes);
    return {};
  }

  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> calls{0};

 private:
  base::Mutex mutex_;
  RateMeter messages_ ABSL_GUARDED_BY(mutex_);
  RateMeter bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::access
