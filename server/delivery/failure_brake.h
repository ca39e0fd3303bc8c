// SPDX-License-Identifier: Apache-2.0
//
// FailureBrake: how fast a subscription is served whose attempts mostly fail.
#pragma once

#include <algorithm>
#include <cstdint>

namespace duetime::delivery {

// A subscriber that fails each message as fast as it gets it would take all the CPU and disk that
// there is, in the daemon and behind it, and use up the attempts of every message in the minutes in
// which what it depends on is down. So failures are counted against a rate, successes pay them
// back, and beyond one second's worth of failures the subscription is served at that rate and no
// faster, until one second's worth has succeeded.
//
// The idea is that of gRPC's retry throttling (gRFC A6) and of Cloud Tasks' system throttling. A
// subscription with no more failures than successes is never slowed. Guarantee: while it is slowed,
// over any time t no more than rate * (t + 10 ms) messages, and one, are granted. Integer
// arithmetic, in thousandths of a message: what a rate per second gives per millisecond. Cost:
// O(1). Thread safety: confined to the engine thread.
class FailureBrake {
 public:
  // rate_per_s: failures; 0: never slows.
  explicit FailureBrake(uint32_t rate_per_s = 0) : rate_per_s_(rate_per_s) {}

  // An attempt failed. True if it is slowed from now on. REQUIRES, here and below: time does not go
  // back.
  bool OnFailure(uint64_t now_mono_ms) {
    Advance(now_mono_ms);
    debt_ = std::min(debt_ + kMessage, DebtMax());
    if (rate_per_s_ == 0 || braking_ || debt_ < DebtMax()) return false;
    braking_ = true;
    tokens_ = 0;
    return true;
  }

  void OnSuccess() {
    debt_ -= std::min(debt_, kMessage);
    if (debt_ == 0) braking_ = false;
  }

  // Grants one message, or not.
  bool Take(uint64_t now_mono_ms) {
    if (!braking_) return true;
    Advance(now_mono_ms);
    if (tokens_ < kMessage) return false;
    tokens_ -= kMessage;
    return true;
  }

  // When Take will grant what is worth waking up for: what comes in 10 ms, at least one message.
  // Not before now.
  uint64_t NextMs(uint64_t now_mono_ms) {
    if (!braking_) return now_mono_ms;
    Advance(now_mono_ms);
    const uint64_t missing = TokensMax() - tokens_;
    return now_mono_ms + (missing + rate_per_s_ - 1) / rate_per_s_;
  }

  // It is slowed.
  bool braking() const { return braking_; }

 private:
  static constexpr uint64_t kMessage = 1000;
  static constexpr uint64_t kDebtMs = 1000;
  static constexpr uint64_t kWorthMs = 10;

  uint64_t DebtMax() const { return std::max(kMessage, uint64_t{rate_per_s_} * kDebtMs); }
  uint64_t TokensMax() const { return std::max(kMessage, uint64_t{rate_per_s_} * kWorthMs); }

  // What the time since the last call gives: as long as it is not slowed, failures are forgotten.
  void Advance(uint64_t now_mono_ms) {
    // Longer fills and empties everything.
    const uint64_t passed_ms = std::min<uint64_t>(now_mono_ms - last_ms_, kMessage * kDebtMs);
    last_ms_ = now_mono_ms;
    const uint64_t given = passed_ms * rate_per_s_;
    if (braking_) {
      tokens_ = std::min(tokens_ + given, TokensMax());
    } else {
      debt_ -= std::min(debt_, given);
    }
  }

  uint32_t rate_per_s_;
  bool braking_ = false;
  uint64_t last_ms_ = 0;
  // Failures that are not paid back.
  uint64_t debt_ = 0;
  // May be handed out while it is slowed.
  uint64_t tokens_ = 0;
};

}  // namespace duetime::delivery
