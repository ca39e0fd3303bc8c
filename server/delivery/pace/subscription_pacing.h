// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionPacing: limits the rate of one subscription.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "server/base/clock.h"
#include "server/delivery/pace/failure_throttle.h"
#include "server/delivery/pace/startup_ramp.h"
#include "server/protocol/topic_pace.h"
#include "server/protocol/wait_reason.h"

namespace duetime::delivery {

// Combines three limits, each a token bucket: the topic's rate, which all shards share; the ramp
// after a start, for messages that piled up before it; and the throttle for failing attempts.
//
// Guarantee: Take grants a message only if all three do. Cost: O(1). Thread safety: confined to the
// engine thread.
class SubscriptionPacing {
 public:
  // REQUIRES: `rate` outlives it.
  void Start(base::Now start, uint32_t ramp_rate, FailureRate* rate) {
    start_ms_ = start.wall_ms;
    ramp_.Start(start.mono_ms, ramp_rate);
    throttle.Start(rate);
  }
  // Sets the topic's rate; nullptr: no limit. REQUIRES: its TopicPace lives until the next call.
  void SetClock(std::shared_ptr<protocol::PaceClock> clock) { clock_ = std::move(clock); }

  // True if one message that is due at `due_ms` is granted.
  bool Take(base::Now now, uint64_t due_ms) {
    if (!throttle.Take(now.mono_ms)) return false;
    if ((!Ramped(due_ms) || ramp_.Take(now.mono_ms, 1) > 0) &&
        (clock_ == nullptr || clock_->Take(now.mono_ms * kMicros, 1) > 0)) {
      return true;
    }
    throttle.GiveBack(1);
    return false;
  }

  // The subscription waits, because Take has refused. Returns the steady-clock time at which Take
  // can grant a message that is due at `due_ms`. Later than now.
  uint64_t Wait(base::Now now, uint64_t due_ms) {
    uint64_t at_ms = throttle.NextMs(now.mono_ms);
    waits_for = protocol::WaitReason::kFailures;
    const auto consider = [this, &at_ms](uint64_t limit_ms, protocol::WaitReason wait_reason) {
      if (limit_ms < at_ms) return;
      at_ms = limit_ms;
      waits_for = wait_reason;
    };
    if (Ramped(due_ms)) consider(ramp_.NextMs(now.mono_ms), protocol::WaitReason::kStartup);
    if (clock_ != nullptr) {
      consider((clock_->NextUs(now.mono_ms * kMicros) + kMicros - 1) / kMicros,
               protocol::WaitReason::kRate);
    }
    return std::max(at_ms, now.mono_ms + 1);
  }

  FailureThrottle throttle;
  // The limit that made the subscription wait for its wake-up, because Take refused; the one that
  // lasts longest if there are several. kNone: it does not wait.
  protocol::WaitReason waits_for = protocol::WaitReason::kNone;
  bool waiting() const { return waits_for != protocol::WaitReason::kNone; }

 private:
  static constexpr uint64_t kMicros = 1000;

  bool Ramped(uint64_t due_ms) const { return ramp_.active() && due_ms <= start_ms_; }

  uint64_t start_ms_ = 0;
  StartupRamp ramp_;
  std::shared_ptr<protocol::PaceClock> clock_;
};

}  // namespace duetime::delivery
