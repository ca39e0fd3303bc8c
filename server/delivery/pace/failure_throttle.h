// SPDX-License-Identifier: Apache-2.0
//
// FailureThrottle: limits the rate of a subscription whose attempts fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "server/base/check.h"
#include "server/base/token_bucket.h"

namespace duetime::delivery {

// The rate that the throttles of one shard share, in equal parts for the slowed subscriptions.
//
// Integer arithmetic, in billionths of a message. Thread safety: confined to the engine thread.
class FailureRate {
 public:
  static constexpr uint64_t kMessage = 1'000'000'000;
  // More time than this fills every bucket and pays every debt.
  static constexpr uint64_t kPassedMaxMs = 10'000;

  // `per_s`: in messages; 0: no subscription is ever slowed.
  explicit FailureRate(uint32_t per_s) : per_ms_(per_s * (kMessage / 1000)) {}

  bool on() const { return per_ms_ > 0; }
  uint64_t per_ms() const { return per_ms_; }
  // Subscriptions that are slowed at the moment.
  size_t slowed() const { return slowed_; }

  // The shared meter: the amount that a subscription would have been given if it had been slowed
  // since the start. REQUIRES: time does not go back.
  uint64_t GivenToEach(uint64_t now_mono_ms) {
    DT_CHECK_GE(now_mono_ms, last_ms_);
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
  // Does not advance the meter.
  void Leave() {
    DT_CHECK_GT(slowed_, 0u);
    --slowed_;
  }

 private:
  const uint64_t per_ms_;
  size_t slowed_ = 0;
  uint64_t last_ms_ = 0;
  uint64_t given_ = 0;
};

// A subscriber that fails each message at once would take all CPU and disk of the daemon and of the
// systems behind it. Therefore each failure adds one message to a debt, and successes and time pay
// it off. A subscription whose debt reaches one second of the rate is slowed: all slowed
// subscriptions of the shard together receive no more than the rate. A subscription stays slowed
// until successes, or time in which it does not take its share, have paid the debt.
//
// The idea comes from gRPC's retry throttling (gRFC A6) and from Cloud Tasks' system throttling.
// Guarantees: (1) a subscription that fails less often than the rate, or in the long run less often
// than it succeeds, is not slowed; (2) over any span of time a slowed subscription is granted at
// most its share of the rate and one bucket: 100 ms of the rate, at least two messages. Cost: O(1).
// Thread safety: confined to the engine thread.
class FailureThrottle {
 public:
  // While the subscription is slowed, the owner must call Slowed at least this often, because time
  // pays only at a call.
  static constexpr uint64_t kCheckMs = 1000;

  // Before Start the subscription is not slowed. REQUIRES: `rate` outlives the throttle's use.
  void Start(FailureRate* rate) {
    DT_CHECK(rate != nullptr);
    Reset();
    rate_ = rate;
  }
  // Forgets all failures.
  void Reset() {
    debt_ = 0;
    Lift();
  }

  // Counts a failed attempt. True if this failure slows the subscription. REQUIRES, here and below:
  // time does not go back.
  bool OnFailure(uint64_t now_mono_ms) {
    if (rate_ == nullptr || !rate_->on()) return false;
    Advance(now_mono_ms);
    debt_ = std::min(debt_ + kMessage, DebtMax());
    if (slowed_ || debt_ < DebtMax()) return false;
    rate_->Join(now_mono_ms);
    slowed_ = true;
    given_ = rate_->GivenToEach(now_mono_ms);
    bucket_.Empty(given_, size());
    return true;
  }

  // Counts a success. True if this success ends the slowing.
  bool OnSuccess() {
    const bool before = slowed_;
    Pay(kMessage);
    return before && !slowed_;
  }

  // True if one message is granted.
  bool Take(uint64_t now_mono_ms) {
    return !Slowed(now_mono_ms) || bucket_.Take(given_, size(), 1) == 1;
  }
  // Returns grants that were not used.
  void GiveBack(size_t messages) {
    if (slowed_) bucket_.GiveBack(given_, size(), messages);
  }

  // The time at which Take can grant the messages of 10 ms, at least one. Never before now, and at
  // most kCheckMs later.
  uint64_t NextMs(uint64_t now_mono_ms) {
    if (!Slowed(now_mono_ms)) return now_mono_ms;
    const uint64_t share = std::max<uint64_t>(rate_->share(), 1);
    const uint64_t goal = std::max(kMessage, share * kWorthMs);
    const uint64_t missing = bucket_.Missing(given_, size(), goal);
    return now_mono_ms + std::min((missing + share - 1) / share, kCheckMs);
  }

  // Lets time pay, then returns whether the subscription is slowed.
  bool Slowed(uint64_t now_mono_ms) {
    if (slowed_) Advance(now_mono_ms);
    return slowed_;
  }
  // The state after the last call.
  bool slowed() const { return slowed_; }

 private:
  static constexpr uint64_t kMessage = FailureRate::kMessage;
  static constexpr uint64_t kDebtMs = 1000;
  static constexpr uint64_t kBucketMs = 100;
  static constexpr uint64_t kWorthMs = 10;

  uint64_t DebtMax() const { return std::max(kMessage, rate_->per_ms() * kDebtMs); }
  base::TokenBucket::Size size() const {
    return {.token = kMessage, .capacity = std::max(2 * kMessage, rate_->per_ms() * kBucketMs)};
  }

  void Lift() {
    if (!slowed_) return;
    slowed_ = false;
    rate_->Leave();
  }
  void Pay(uint64_t amount) {
    debt_ -= std::min(debt_, amount);
    if (debt_ == 0) Lift();
  }

  // Lets the time since the last call fill the bucket, or pay for failures.
  void Advance(uint64_t now_mono_ms) {
    DT_CHECK_GE(now_mono_ms, last_ms_);
    const uint64_t passed_ms = std::min(now_mono_ms - last_ms_, FailureRate::kPassedMaxMs);
    last_ms_ = now_mono_ms;
    if (!slowed_) return Pay(passed_ms * rate_->per_ms());
    given_ = rate_->GivenToEach(now_mono_ms);
    const uint64_t unused = bucket_.TakeOverflow(given_);
    if (unused == 0) return;
    // While the subscription takes nothing, its debt shrinks at the full rate, not at its share.
    const uint64_t sharers = rate_->slowed();
    DT_CHECK_GT(sharers, 0u);
    Pay(std::min(unused, debt_ / sharers + 1) * sharers);
  }

  FailureRate* rate_ = nullptr;
  bool slowed_ = false;
  uint64_t last_ms_ = 0;
  // The debt: failures that are not paid yet.
  uint64_t debt_ = 0;
  // While slowed: the shared meter at the last call.
  uint64_t given_ = 0;
  base::TokenBucket bucket_;
};

}  // namespace duetime::delivery
