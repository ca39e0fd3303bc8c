// SPDX-License-Identifier: Apache-2.0
//
// FailureBrake: how fast a subscription is served whose attempts fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace duetime::delivery {

// What the brakes of one shard share: a rate, in equal parts for those that are slowed.
//
// Integer arithmetic, in billionths of a message. Thread safety: confined to the engine thread.
class FailureRate {
 public:
  static constexpr uint64_t kMessage = 1'000'000'000;

  // Messages; 0: nothing is ever slowed.
  explicit FailureRate(uint32_t per_s) : per_ms_(per_s * (kMessage / 1000)) {}

  bool on() const { return per_ms_ > 0; }
  uint64_t per_ms() const { return per_ms_; }
  // Subscriptions that are slowed at the moment.
  size_t slowed() const { return slowed_; }

  // What each that was slowed all the time has been given since the start. REQUIRES: time does not
  // go back.
  uint64_t GivenToEach(uint64_t now_mono_ms) {
    const uint64_t passed_ms = std::min(now_mono_ms - last_ms_, kPassedMaxMs);
    last_ms_ = now_mono_ms;
    given_ += passed_ms * share();
    return given_;
  }
  uint64_t share() const { return per_ms_ / std::max<size_t>(slowed_, 1); }

  void Join(uint64_t now_mono_ms) {
    GivenToEach(now_mono_ms);
    ++slowed_;
  }
  // As of the last call.
  void Leave() { --slowed_; }

 private:
  // Longer fills and empties everything.
  static constexpr uint64_t kPassedMaxMs = 10'000;

  const uint64_t per_ms_;
  size_t slowed_ = 0;
  uint64_t last_ms_ = 0;
  uint64_t given_ = 0;
};

// A subscriber that fails each message as fast as it gets it would take all the CPU and disk that
// there is, in the daemon and behind it. So failures are counted, successes and time pay for them,
// and a subscription with more than one second's worth that is not paid for is slowed: all that
// are, together, are served at the rate and no faster. It ends for one when what it owes is paid:
// by successes, or by time in which it does not ask for its share.
//
// The idea is that of gRPC's retry throttling (gRFC A6) and of Cloud Tasks' system throttling.
// Guarantees: (1) who fails less often than the rate, or in the long run less often than it
// succeeds, is not slowed; (2) while it is slowed, over any time no more is granted than its share
// in it and what the rate gives in 100 ms, at least two messages. Cost: O(1). Thread safety:
// confined to the engine thread.
class FailureBrake {
 public:
  // It must be looked at so often while it is slowed: time pays only then, and shares change.
  static constexpr uint64_t kLookMs = 1000;

  // Before this nothing is slowed. REQUIRES: `rate` outlives the brake's use.
  void Start(FailureRate* rate) {
    Reset();
    rate_ = rate;
  }
  // As at first.
  void Reset() {
    debt_ = 0;
    Lift();
  }

  // An attempt failed. True if it is slowed from now on. REQUIRES, here and below: time does not go
  // back.
  bool OnFailure(uint64_t now_mono_ms) {
    if (rate_ == nullptr || !rate_->on()) return false;
    Advance(now_mono_ms);
    debt_ = std::min(debt_ + kMessage, DebtMax());
    if (braking_ || debt_ < DebtMax()) return false;
    rate_->Join(now_mono_ms);
    braking_ = true;
    tokens_ = 0;
    given_ = rate_->GivenToEach(now_mono_ms);
    return true;
  }

  // True if it is slowed no longer from now on.
  bool OnSuccess() {
    const bool before = braking_;
    Pay(kMessage);
    return before && !braking_;
  }

  // Grants one message, or not.
  bool Take(uint64_t now_mono_ms) {
    if (!Slowed(now_mono_ms)) return true;
    if (tokens_ < kMessage) return false;
    tokens_ -= kMessage;
    return true;
  }
  // What was granted was not handed out.
  void GiveBack(size_t messages) {
    if (braking_) tokens_ = std::min(tokens_ + messages * kMessage, TokensMax());
  }

  // When Take will grant what is worth waking up for, unless it is slowed no longer before: what
  // comes in 10 ms, at least one message; or when it must be looked at. Not before now.
  uint64_t NextMs(uint64_t now_mono_ms) {
    if (!Slowed(now_mono_ms)) return now_mono_ms;
    const uint64_t share = std::max<uint64_t>(rate_->share(), 1);
    const uint64_t goal = std::max(kMessage, share * kWorthMs);
    const uint64_t missing = goal - std::min(goal, tokens_);
    return now_mono_ms + std::min((missing + share - 1) / share, kLookMs);
  }

  // It is slowed, now that time has paid.
  bool Slowed(uint64_t now_mono_ms) {
    if (braking_) Advance(now_mono_ms);
    return braking_;
  }
  // As of the last call.
  bool slowed() const { return braking_; }

 private:
  static constexpr uint64_t kMessage = FailureRate::kMessage;
  static constexpr uint64_t kDebtMs = 1000;
  static constexpr uint64_t kBucketMs = 100;
  static constexpr uint64_t kWorthMs = 10;
  // Longer pays for everything.
  static constexpr uint64_t kPassedMaxMs = 10'000;

  uint64_t DebtMax() const { return std::max(kMessage, rate_->per_ms() * kDebtMs); }
  uint64_t TokensMax() const { return std::max(2 * kMessage, rate_->per_ms() * kBucketMs); }

  void Lift() {
    if (!braking_) return;
    braking_ = false;
    rate_->Leave();
  }
  void Pay(uint64_t amount) {
    debt_ -= std::min(debt_, amount);
    if (debt_ == 0) Lift();
  }

  // What the time since the last call gives; it may be slowed no longer then.
  void Advance(uint64_t now_mono_ms) {
    const uint64_t passed_ms = std::min(now_mono_ms - last_ms_, kPassedMaxMs);
    last_ms_ = now_mono_ms;
    if (!braking_) return Pay(passed_ms * rate_->per_ms());
    const uint64_t given = rate_->GivenToEach(now_mono_ms);
    tokens_ += given - std::exchange(given_, given);
    if (tokens_ <= TokensMax()) return;
    // Time in which it did not ask pays at the rate, not at its share.
    const uint64_t unused = tokens_ - TokensMax();
    tokens_ = TokensMax();
    const uint64_t sharers = rate_->slowed();
    Pay(std::min(unused, debt_ / sharers + 1) * sharers);
  }

  FailureRate* rate_ = nullptr;
  bool braking_ = false;
  uint64_t last_ms_ = 0;
  // Failures that are not paid for.
  uint64_t debt_ = 0;
  // While it is slowed: what may be handed out, and what each had been given then.
  uint64_t tokens_ = 0;
  uint64_t given_ = 0;
};

}  // namespace duetime::delivery
