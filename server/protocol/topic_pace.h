// SPDX-License-Identifier: Apache-2.0
//
// TopicPace: the delivery rate of a topic, across all shards.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/base/token_bucket.h"
#include "storage/types.h"

namespace duetime::protocol {

// The settings in one word, so that they change atomically: version 6 bits, rate 32, burst 26. The
// version counts the changes and wraps.
class PaceSettings {
 public:
  static constexpr int kVersionBits = 6;

  constexpr explicit PaceSettings(uint64_t word = 0) : word_(word) {}
  constexpr PaceSettings(uint64_t version, uint32_t rate_per_s, uint32_t burst)
      : word_(version << 58 | uint64_t{rate_per_s} << 26 | burst) {}

  uint64_t word() const { return word_; }
  uint64_t version() const { return word_ >> 58; }
  // 0: no limit.
  uint32_t rate_per_s() const { return static_cast<uint32_t>(word_ >> 26); }
  uint32_t burst() const { return static_cast<uint32_t>(word_ & ((1u << 26) - 1)); }

 private:
  uint64_t word_;
};

// Limits the deliveries of one subscription: a token bucket in one atomic word, which all shards
// share.
//
// Guarantees: (1) while the settings stay, Take grants at most burst + rate * t messages in any
// time t, to any number of threads and for any order of their clock readings; (2) a change of the
// settings applies to the next Take. Grants under the old settings delay a message by at most one
// burst of the new ones. A change may allow one more burst. Cost: mostly one compare-and-swap; none
// without a limit. Thread-safe.
class PaceClock {
 public:
  // The clock's maximum: 9 years after the start of the machine. It leaves room for the other
  // fields of the 64-bit state.
  static constexpr uint64_t kNowMaxMicros = uint64_t{1} << 48;

  // Grants up to `wanted` messages, at a reading of the steady clock.
  // REQUIRES: now_us <= kNowMaxMicros.
  uint64_t Take(uint64_t now_us, uint64_t wanted) {
    DT_CHECK_LE(now_us, kNowMaxMicros);
    uint64_t before = word_.load();
    for (;;) {
      const PaceSettings settings(settings_->load());
      if (settings.rate_per_s() == 0) return wanted;
      const uint64_t now = now_us * kTicksPerMicro;
      base::TokenBucket bucket = BucketOf(before, now, settings);
      const uint64_t granted = bucket.Take(now, SizeOf(settings), wanted);
      // Without a grant the word stays, unless it belongs to other settings.
      if (granted == 0 && VersionOf(before) == settings.version()) return 0;
      const uint64_t after = settings.version() << kTimeBits | bucket.full_at();
      if (word_.compare_exchange_weak(before, after)) return granted;
    }
  }

  // Returns when Take will grant enough messages to be worth a wake-up, unless another thread takes
  // them first. Enough are the messages of 10 ms, at least one and at most a burst. Never before
  // now_us.
  uint64_t NextUs(uint64_t now_us) const {
    DT_CHECK_LE(now_us, kNowMaxMicros);
    const PaceSettings settings(settings_->load());
    if (settings.rate_per_s() == 0) return now_us;
    const uint64_t now = now_us * kTicksPerMicro;
    const base::TokenBucket::Size size = SizeOf(settings);
    const uint64_t messages = std::max<uint64_t>(kWorthTicks / size.token, 1);
    const uint64_t goal = std::min(messages * size.token, size.capacity);
    const uint64_t wait = BucketOf(word_.load(), now, settings).Missing(now, size, goal);
    return (now + wait + kTicksPerMicro - 1) / kTicksPerMicro;
  }

 private:
  friend class TopicPace;

  // A tick is 1/128 us. It is fine enough for a million messages a second. It is also coarse enough
  // that years of uptime, and the largest burst at the slowest rate, fit beside the version.
  static constexpr uint64_t kTicksPerMicro = 128;
  static constexpr uint64_t kTicksPerSecond = kTicksPerMicro * 1'000'000;
  static constexpr uint64_t kWorthTicks = kTicksPerSecond / 100;
  static constexpr int kTimeBits = 64 - PaceSettings::kVersionBits;
  static constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;

  explicit PaceClock(const std::atomic<uint64_t>* settings) : settings_(settings) {}

  static uint64_t VersionOf(uint64_t word) { return word >> kTimeBits; }

  // A message costs its interval, rounded up, so that the rate is never exceeded.
  static base::TokenBucket::Size SizeOf(const PaceSettings& settings) {
    const uint64_t interval = (kTicksPerSecond + settings.rate_per_s() - 1) / settings.rate_per_s();
    return {.token = interval, .capacity = interval * settings.burst()};
  }

  // Grants under other settings count as at most one burst of these.
  static base::TokenBucket BucketOf(uint64_t word, uint64_t now, const PaceSettings& settings) {
    base::TokenBucket bucket(word & kTimeMask);
    if (VersionOf(word) != settings.version()) bucket.Fit(now, SizeOf(settings));
    return bucket;
  }

  const std::atomic<uint64_t>* const settings_;
  // The version of the settings, and the bucket under these settings.
  std::atomic<uint64_t> word_{0};
};

// A topic's delivery rate: one setting, and a clock for each of its subscriptions. All shards share
// a clock, so the rate of a subscription does not depend on the shards of its messages. TopicPace
// drops a clock that no shard uses.
//
// It keeps no list of waiters. A caller that needs more than Take granted calls again at NextUs. A
// change of the rate wakes no caller. Thread-safe; only ClockOf takes a lock.
class TopicPace {
 public:
  // Set replaces larger values by these.
  static constexpr uint64_t kRateMax = 1'000'000;
  static constexpr uint64_t kBurstMax = 1'000'000;
  // TopicPace keeps up to this many clocks, used or not.
  static constexpr size_t kForgetMin = 16;

  // rate_per_s: messages per second; 0: no limit. burst: messages that may come at once after a
  // pause, at least 1. Applies to the next Take. Equal settings change nothing.
  void Set(uint64_t rate_per_s, uint64_t burst) {
    const auto rate = static_cast<uint32_t>(std::min(rate_per_s, kRateMax));
    const auto size = static_cast<uint32_t>(std::clamp<uint64_t>(burst, 1, kBurstMax));
    uint64_t before = settings_.load();
    for (;;) {
      const PaceSettings old(before);
      if (old.rate_per_s() == rate && old.burst() == size) return;
      const PaceSettings next((old.version() + 1) % (1u << PaceSettings::kVersionBits), rate, size);
      if (settings_.compare_exchange_weak(before, next.word())) return;
    }
  }

  // Returns the clock of a subscription. All callers get the same clock while one of them keeps it.
  // Takes a lock, so call it once. REQUIRES: the TopicPace outlives the use of the clock.
  std::shared_ptr<PaceClock> ClockOf(storage::SubscriptionId subscription) {
    base::MutexLock lock(&mutex_);
    if (const auto it = clocks_.find(subscription); it != clocks_.end()) {
      if (std::shared_ptr<PaceClock> clock = it->second.lock(); clock != nullptr) return clock;
    }
    if (clocks_.size() >= forget_at_) {
      absl::erase_if(clocks_, [](const auto& item) { return item.second.expired(); });
      forget_at_ = 2 * clocks_.size() + kForgetMin;
    }
    std::shared_ptr<PaceClock> clock(new PaceClock(&settings_));
    clocks_.insert_or_assign(subscription, clock);
    return clock;
  }

  // The number of clocks in use, and at most about as many unused ones. For tests.
  size_t clocks() const {
    base::MutexLock lock(&mutex_);
    return clocks_.size();
  }

  uint64_t rate_per_s() const { return PaceSettings(settings_.load()).rate_per_s(); }
  uint64_t burst() const { return PaceSettings(settings_.load()).burst(); }

 private:
  std::atomic<uint64_t> settings_{PaceSettings(0, 0, 1).word()};
  mutable base::Mutex mutex_;
  absl::flat_hash_map<storage::SubscriptionId, std::weak_ptr<PaceClock>> clocks_
      ABSL_GUARDED_BY(mutex_);
  // At this number of clocks, ClockOf erases the unused ones. O(1) per call on average.
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = kForgetMin;
};

}  // namespace duetime::protocol
