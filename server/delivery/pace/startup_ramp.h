// SPDX-License-Identifier: Apache-2.0
//
// StartupRamp: limits the rate at which the messages of a downtime are handed out.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/base/check.h"
#include "server/base/token_bucket.h"

namespace duetime::delivery {

// A ramp: after Start a subscription receives its waiting messages at a given rate, which doubles
// each second. After ten seconds there is no limit. Therefore the messages of a downtime do not
// reach the subscribers all at once after the start.
//
// The bucket fills at the present rate, and holds 100 ms of that rate (at least one message). It is
// full at the start. Guarantee: while the ramp lasts, the grants within any span of time are at
// most the sum of the rate over the span and one bucket at the span's end. Integer arithmetic in
// thousandths of a message: a rate of N messages per second gives N thousandths per millisecond.
// Cost: O(1). Thread safety: confined to the engine thread.
class StartupRamp {
 public:
  static constexpr uint64_t kSeconds = 10;

  // Begins the ramp. With rate 0, as before Start, everything is granted.
  void Start(uint64_t now_mono_ms, uint32_t rate_per_s) {
    *this = StartupRamp();
    rate_per_s_ = rate_per_s;
    start_ms_ = now_mono_ms;
  }

  // Grants up to `wanted` messages. REQUIRES: time does not go back.
  uint64_t Take(uint64_t now_mono_ms, uint64_t wanted) {
    Advance(now_mono_ms);
    return active() ? bucket_.Take(given_, SizeAt(last_ms_), wanted) : wanted;
  }

  // The time at which Take can grant the messages of 10 ms, at least one. Never before now.
  uint64_t NextMs(uint64_t now_mono_ms) {
    Advance(now_mono_ms);
    if (!active()) return now_mono_ms;
    const uint64_t goal = std::max(kMessage, RateAt(last_ms_) * kWorthMs);
    uint64_t missing = bucket_.Missing(given_, SizeAt(last_ms_), goal);
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

  // True while the ramp lasts, as of the last call.
  bool active() const { return rate_per_s_ != 0; }

 private:
  static constexpr uint64_t kSecondMs = 1000;
  static constexpr uint64_t kEndMs = kSeconds * kSecondMs;
  // One message in the unit of given_.
  static constexpr uint64_t kMessage = 1000;
  static constexpr uint64_t kBucketMs = 100;
  static constexpr uint64_t kWorthMs = 10;

  // Times are milliseconds since the start, below kEndMs: the rate is below 2^42.
  uint64_t RateAt(uint64_t at_ms) const {
    DT_CHECK_LT(at_ms, kEndMs);
    return uint64_t{rate_per_s_} << (at_ms / kSecondMs);
  }
  base::TokenBucket::Size SizeAt(uint64_t at_ms) const {
    return {.token = kMessage, .capacity = std::max(kMessage, RateAt(at_ms) * kBucketMs)};
  }

  // Brings the meter up to now, and ends the ramp at its end.
  void Advance(uint64_t now_mono_ms) {
    if (!active()) return;
    DT_CHECK_GE(now_mono_ms, start_ms_ + last_ms_);
    const uint64_t now_ms = now_mono_ms - start_ms_;
    if (now_ms >= kEndMs) {
      rate_per_s_ = 0;
      return;
    }
    bucket_.TakeOverflow(given_);
    bucket_.Grow(SizeAt(now_ms).capacity - SizeAt(last_ms_).capacity);
    while (last_ms_ < now_ms) {
      const uint64_t left_ms = kSecondMs - last_ms_ % kSecondMs;
      const uint64_t step_ms = std::min(left_ms, now_ms - last_ms_);
      given_ += step_ms * RateAt(last_ms_);
      last_ms_ += step_ms;
    }
  }

  // 0: no ramp, or the ramp is over.
  uint32_t rate_per_s_ = 0;
  uint64_t start_ms_ = 0;
  // The meter: the thousandths of messages that the ramp has given until last_ms_ after the start.
  uint64_t last_ms_ = 0;
  uint64_t given_ = 0;
  base::TokenBucket bucket_;
};

}  // namespace duetime::delivery
