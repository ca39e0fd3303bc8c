// SPDX-License-Identifier: Apache-2.0
//
// CatchUp: how fast what has piled up is handed out after the start.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/base/check.h"

namespace duetime::delivery {

// A ramp: after Start what a subscription has piled up is handed out at a given rate, which doubles
// each second, and without a limit once the last of its ten seconds is over. So the work of a
// downtime does not fall on the subscribers in the moment in which everybody starts again.
//
// A bucket that fills at the rate of the moment and holds what it gives in 100 ms (at least one
// message); it is full at the start. Guarantee: while the ramp lasts, over any time no more is
// granted than the ramp gives in it and one bucket, as large as at its end. Integer arithmetic:
// counts in thousandths of a message, which is what a rate per second gives per millisecond, so
// nothing is lost to rounding. Cost: O(1). Thread safety: confined to the engine thread.
class CatchUp {
 public:
  static constexpr uint64_t kSeconds = 10;

  // Begins the ramp. Rate 0: no ramp, everything is granted; as before Start.
  void Start(uint64_t now_mono_ms, uint32_t rate_per_s) {
    rate_per_s_ = rate_per_s;
    start_ms_ = now_mono_ms;
    last_ms_ = 0;
    tokens_ = CapacityAt(0);
  }

  // Grants up to `wanted` messages. REQUIRES: time does not go back.
  uint64_t Take(uint64_t now_mono_ms, uint64_t wanted) {
    Fill(now_mono_ms);
    if (!active()) return wanted;
    const uint64_t granted = std::min(wanted, tokens_ / kMessage);
    tokens_ -= granted * kMessage;
    return granted;
  }

  // When Take will grant what is worth waking up for: what comes in 10 ms, at least one message.
  // Not before now.
  uint64_t NextMs(uint64_t now_mono_ms) {
    Fill(now_mono_ms);
    if (!active()) return now_mono_ms;
    const uint64_t goal = std::max(kMessage, RateAt(last_ms_) * kWorthMs);
    uint64_t missing = goal - std::min(goal, tokens_);
    uint64_t at_ms = last_ms_;
    while (at_ms < kEndMs) {
      const uint64_t wait_ms = (missing + RateAt(at_ms) - 1) / RateAt(at_ms);
      const uint64_t left_ms = kSecondMs - at_ms % kSecondMs;
      if (wait_ms <= left_ms) return start_ms_ + at_ms + wait_ms;
      missing -= left_ms * RateAt(at_ms);
      at_ms += left_ms;
    }
    return start_ms_ + kEndMs;
  }

  // The ramp goes on, as of the last call.
  bool active() const { return rate_per_s_ != 0; }

 private:
  static constexpr uint64_t kSecondMs = 1000;
  static constexpr uint64_t kEndMs = kSeconds * kSecondMs;
  // One message in the unit of tokens_.
  static constexpr uint64_t kMessage = 1000;
  static constexpr uint64_t kBucketMs = 100;
  static constexpr uint64_t kWorthMs = 10;

  // Times are milliseconds since the start, below kEndMs: the rate is below 2^42.
  uint64_t RateAt(uint64_t at_ms) const { return uint64_t{rate_per_s_} << (at_ms / kSecondMs); }
  uint64_t CapacityAt(uint64_t at_ms) const {
    return std::max(kMessage, RateAt(at_ms) * kBucketMs);
  }

  // Brings the bucket up to now, and ends the ramp at its end.
  void Fill(uint64_t now_mono_ms) {
    if (!active()) return;
    DT_CHECK_GE(now_mono_ms, start_ms_ + last_ms_);
    const uint64_t now_ms = now_mono_ms - start_ms_;
    if (now_ms >= kEndMs) {
      rate_per_s_ = 0;
      return;
    }
    while (last_ms_ < now_ms) {
      const uint64_t left_ms = kSecondMs - last_ms_ % kSecondMs;
      const uint64_t step_ms = std::min(left_ms, now_ms - last_ms_);
      tokens_ += step_ms * RateAt(last_ms_);
      last_ms_ += step_ms;
    }
    tokens_ = std::min(tokens_, CapacityAt(now_ms));
  }

  // 0: off, or over.
  uint32_t rate_per_s_ = 0;
  uint64_t start_ms_ = 0;
  // Up to when the bucket is filled, since start_ms_.
  uint64_t last_ms_ = 0;
  // Thousandths of messages that may be handed out at once.
  uint64_t tokens_ = 0;
};

}  // namespace duetime::delivery
