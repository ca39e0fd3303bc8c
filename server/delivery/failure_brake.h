// SPDX-License-Identifier: Apache-2.0
//
// FailureBrake: how fast a subscription is served whose attempts fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace duetime::delivery {

// What the brakes of one shard share.
struct FailureRate {
  // Messages; 0: nothing is ever slowed.
  uint32_t per_s = 0;
  // Subscriptions that are slowed at the moment.
  size_t slowed = 0;
};

// A subscriber that fails each message as fast as it gets it would take all the CPU and disk that
// there is, in the daemon and behind it. So failures are counted, successes and time pay for them,
// and a subscription with more than one second's worth that is not paid for is slowed: all that
// are, together, are served at the rate and no faster. It ends for one when what it owes is paid:
// by successes, or by time in which it does not ask for its share.
//
// The idea is that of gRPC's retry throttling (gRFC A6) and of Cloud Tasks' system throttling.
// Guarantees: (1) who fails less often than the rate, or in the long run less often than it
// succeeds, is not slowed; (2) while it is slowed, and while as many others are, over any time t no
// more than its share of rate * (t + 100 ms) messages, and one, are granted. Integer arithmetic, in
// millionths of a message. Cost: O(1). Thread safety: confined to the engine thread.
class FailureBrake {
 public:
  FailureBrake() = default;
  ~FailureBrake() { Reset(); }
  FailureBrake(const FailureBrake&) = delete;
  FailureBrake& operator=(const FailureBrake&) = delete;

  // Before this nothing is slowed. REQUIRES: `rate` outlives the brake.
  void Start(FailureRate* rate) { rate_ = rate; }
  // As at first.
  void Reset() {
    debt_ = 0;
    Lift();
  }

  // An attempt failed. REQUIRES, here and below: time does not go back.
  void OnFailure(uint64_t now_mono_ms) {
    Advance(now_mono_ms);
    if (!on()) return;
    debt_ = std::min(debt_ + kMessage, DebtMax());
    if (braking_ || debt_ < DebtMax()) return;
    braking_ = true;
    tokens_ = 0;
    ++rate_->slowed;
  }

  // True if it is no longer slowed.
  bool OnSuccess() {
    Pay(kMessage);
    return !braking_;
  }

  // Grants one message, or not.
  bool Take(uint64_t now_mono_ms) {
    if (!braking_) return true;
    Advance(now_mono_ms);
    if (!braking_) return true;  // not any more
    if (tokens_ < kMessage) return false;
    tokens_ -= kMessage;
    return true;
  }
  // What was granted was not handed out.
  void GiveBack(size_t messages) {
    if (braking_) tokens_ = std::min(tokens_ + messages * kMessage, TokensMax());
  }

  // When Take will grant what is worth waking up for: what comes in 10 ms, at least one message.
  // Not before now.
  uint64_t NextMs(uint64_t now_mono_ms) {
    Advance(now_mono_ms);
    if (!braking_) return now_mono_ms;
    const uint64_t goal = std::max(kMessage, PerMs() * kWorthMs);
    const uint64_t missing = goal - std::min(goal, tokens_);
    return now_mono_ms + (missing + PerMs() - 1) / PerMs();
  }

  // It is slowed.
  bool braking() const { return braking_; }

 private:
  static constexpr uint64_t kMessage = 1'000'000;
  static constexpr uint64_t kDebtMs = 1000;
  static constexpr uint64_t kBucketMs = 100;
  static constexpr uint64_t kWorthMs = 10;
  // Longer fills and empties everything.
  static constexpr uint64_t kPassedMaxMs = 10'000'000;

  bool on() const { return rate_ != nullptr && rate_->per_s > 0; }
  uint64_t RatePerMs() const { return rate_->per_s * (kMessage / 1000); }
  // Its share. REQUIRES: it is slowed.
  uint64_t PerMs() const { return std::max<uint64_t>(RatePerMs() / rate_->slowed, 1); }
  uint64_t DebtMax() const { return std::max(kMessage, RatePerMs() * kDebtMs); }
  uint64_t TokensMax() const { return std::max(kMessage, PerMs() * kBucketMs); }

  void Lift() {
    if (!braking_) return;
    braking_ = false;
    --rate_->slowed;
  }
  void Pay(uint64_t amount) {
    debt_ -= std::min(debt_, amount);
    if (debt_ == 0) Lift();
  }

  // What the time since the last call gives; it may be slowed no longer then.
  void Advance(uint64_t now_mono_ms) {
    if (!on()) return;
    const uint64_t passed_ms = std::min(now_mono_ms - last_ms_, kPassedMaxMs);
    last_ms_ = now_mono_ms;
    if (!braking_) return Pay(passed_ms * RatePerMs());
    tokens_ += passed_ms * PerMs();
    if (tokens_ <= TokensMax()) return;
    const uint64_t unused = tokens_ - TokensMax();
    tokens_ = TokensMax();
    Pay(unused);
  }

  FailureRate* rate_ = nullptr;
  bool braking_ = false;
  uint64_t last_ms_ = 0;
  // Failures that are not paid for.
  uint64_t debt_ = 0;
  // May be handed out while it is slowed.
  uint64_t tokens_ = 0;
};

}  // namespace duetime::delivery
