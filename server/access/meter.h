// SPDX-License-Identifier: Apache-2.0
//
// Meter: how much a principal, or a topic, has used of its quota.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

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
  // Takes 1 in any case. Returns the milliseconds until its turn, at most `longest_ms`.
  // REQUIRES: rate > 0.
  uint64_t Queue(uint64_t mono_ms, uint64_t rate, uint64_t longest_ms) {
    const uint64_t wait = std::min(Wait(mono_ms), longest_ms);
    if (wait < longest_ms) {
      paid_at_us_ = std::max(paid_at_us_, mono_ms * kMicrosPerMs) + kBurstUs / rate;
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

// The pending messages of some topics: the last count plus the messages admitted since its begin.
// The sum is too high by the messages that ended since the count, about a second's worth. It is too
// low by the messages that were admitted before the count began and stored after it ended.
class PendingMeter {
 public:
  struct Amount {
    uint64_t messages = 0;
    uint64_t bytes = 0;
  };

  Amount now() const { return {messages_ + added_.messages, bytes_ + added_.bytes}; }
  void Add(const Amount& amount) {
    added_.messages += amount.messages;
    added_.bytes += amount.bytes;
  }

  // True if it is time to count; then EndCount must follow.
  bool BeginCount(uint64_t mono_ms) {
    if (counting_ || mono_ms < next_mono_ms_) return false;
    counting_ = true;
    began_mono_ms_ = mono_ms;
    before_ = added_;
    return true;
  }
  // Without a result, the last count stays.
  void EndCount(uint64_t mono_ms, const std::optional<Amount>& counted) {
    counting_ = false;
    // At most a twentieth of a thread's time.
    next_mono_ms_ = mono_ms + std::max(kPeriodMs, kPauses * (mono_ms - began_mono_ms_));
    if (!counted.has_value()) return;
    messages_ = counted->messages;
    bytes_ = counted->bytes;
    added_.messages -= before_.messages;
    added_.bytes -= before_.bytes;
  }

 private:
  static constexpr uint64_t kPeriodMs = 1'000;
  static constexpr uint64_t kPauses = 20;

  uint64_t messages_ = 0;
  uint64_t bytes_ = 0;
  // Since the beginning of the last count that gave a result.
  Amount added_;
  // Of `added_`, what came before the beginning of the present count.
  Amount before_;
  bool counting_ = false;
  uint64_t began_mono_ms_ = 0;
  uint64_t next_mono_ms_ = 0;
};

// Thread-safe.
class Meter {
 public:
  // A client that repeats refused calls at once would spend the server's CPU at full speed. So the
  // refusals of a principal leave at this rate, after a burst of one second's worth, and each one
  // waits at most this long.
  static constexpr uint64_t kRefusalsPerSecond = 200;
  static constexpr uint64_t kRefusalDelayMsMax = 5'000;
  // After this time the pending messages are counted again.
  static constexpr uint64_t kPendingRetryMs = 1'000;

  // 0: no limit.
  struct Limits {
    uint64_t messages_per_second = 0;
    uint64_t bytes_per_second = 0;
    uint64_t pending_messages = 0;
    uint64_t pending_bytes = 0;
  };
  enum class Limit : uint8_t { kNone, kMessages, kBytes, kPendingMessages, kPendingBytes };
  struct Verdict {
    // The limit that refused a message. kNone: all were taken.
    Limit limit = Limit::kNone;
    uint64_t wait_ms = 0;
    PendingMeter::Amount taken{};
  };

  // Takes messages of these sizes, in this order, until a limit refuses one. The rates take all of
  // them or none.
  Verdict Take(uint64_t mono_ms, const Limits& limits, std::span<const uint64_t> sizes) {
    const base::MutexLock lock(&mutex_);
    const uint64_t for_messages = limits.messages_per_second == 0 ? 0 : messages_.Wait(mono_ms);
    if (for_messages > 0) return {.limit = Limit::kMessages, .wait_ms = for_messages};
    const uint64_t for_bytes = limits.bytes_per_second == 0 ? 0 : bytes_.Wait(mono_ms);
    if (for_bytes > 0) return {.limit = Limit::kBytes, .wait_ms = for_bytes};
    Verdict verdict;
    PendingMeter::Amount& taken = verdict.taken;
    const PendingMeter::Amount before = pending_.now();
    for (const uint64_t bytes : sizes) {
      verdict.limit = OverPending(limits, {.messages = before.messages + taken.messages + 1,
                                           .bytes = before.bytes + taken.bytes + bytes});
      if (verdict.limit != Limit::kNone) {
        verdict.wait_ms = kPendingRetryMs;
        break;
      }
      ++taken.messages;
      taken.bytes += bytes;
    }
    if (limits.messages_per_second != 0) {
      messages_.Take(mono_ms, limits.messages_per_second, taken.messages);
    }
    if (limits.bytes_per_second != 0) {
      bytes_.Take(mono_ms, limits.bytes_per_second, taken.bytes);
    }
    pending_.Add(taken);
    return verdict;
  }

  // See PendingMeter.
  bool BeginCount(uint64_t mono_ms) {
    const base::MutexLock lock(&mutex_);
    return pending_.BeginCount(mono_ms);
  }
  void EndCount(uint64_t mono_ms, const std::optional<PendingMeter::Amount>& counted) {
    const base::MutexLock lock(&mutex_);
    pending_.EndCount(mono_ms, counted);
  }
  PendingMeter::Amount pending() {
    const base::MutexLock lock(&mutex_);
    return pending_.now();
  }

  // Counts a refusal of the principal. Returns the milliseconds until it may be answered.
  uint64_t PaceRefusal(uint64_t mono_ms) {
    const base::MutexLock lock(&mutex_);
    return refusals_.Queue(mono_ms, kRefusalsPerSecond, kRefusalDelayMsMax);
  }

  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> calls{0};

 private:
  static Limit OverPending(const Limits& limits, const PendingMeter::Amount& pending) {
    if (limits.pending_messages != 0 && pending.messages > limits.pending_messages) {
      return Limit::kPendingMessages;
    }
    const bool bytes_over = limits.pending_bytes != 0 && pending.bytes > limits.pending_bytes;
    return bytes_over ? Limit::kPendingBytes : Limit::kNone;
  }

  base::Mutex mutex_;
  RateMeter messages_ ABSL_GUARDED_BY(mutex_);
  RateMeter bytes_ ABSL_GUARDED_BY(mutex_);
  RateMeter refusals_ ABSL_GUARDED_BY(mutex_);
  PendingMeter pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::access
