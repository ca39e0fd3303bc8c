// SPDX-License-Identifier: Apache-2.0
//
// Pacing: makes subscriptions wait for their pace, and wakes them up.
#pragma once

#include <cstdint>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_parts.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/pace/turns.h"

namespace duetime::delivery {

// Connects a subscription's SubscriptionPacing with its wake-up timer and its turns.
//
// Invariant: a subscription that waits for its pace, or is slowed, has a wake-up timer. Cost: O(1).
// Thread safety: confined to the engine thread.
class Pacing {
 public:
  explicit Pacing(const DeliveryParts& parts)
      : timers_(parts.timers), turns_(parts.turns), backlog_(parts.backlog) {
    DT_CHECK(AllSet(timers_, turns_, backlog_));
  }

  // True if one message that was due at `due_ms` may be handed out now.
  static bool Take(base::Now now, uint64_t due_ms, Subscription* subscription) {
    return subscription->pacing.Take(now, due_ms);
  }
  // Call this if Take refused. The subscription waits until Take can grant a message.
  void Wait(base::Now now, uint64_t due_ms, Subscription* subscription) {
    timers_->WakeAt(subscription->pacing.Wait(now, due_ms), subscription);
    DT_CHECK(!subscription->wake.none());
  }
  // Returns the grants of messages that were not handed out.
  static void GiveBack(size_t messages, Subscription* subscription) {
    DT_CHECK_GT(messages, 0u);
    subscription->pacing.throttle.GiveBack(messages);
    subscription->pacing.waits_for = protocol::WaitReason::kNone;  // the next turn asks again
  }

  void OnFailure(base::Now now, Subscription* subscription) {
    // A deletion resets the throttle. No later failure may slow the subscription, because
    // Subscriptions::Remove requires that it is not slowed.
    DT_CHECK(!subscription->state.deleting);
    if (!subscription->pacing.throttle.OnFailure(now.mono_ms)) return;
    timers_->WakeAt(now.mono_ms + FailureThrottle::kCheckMs, subscription);
  }
  void OnSuccess(Subscription* subscription) {
    if (!subscription->pacing.throttle.OnSuccess()) return;
    subscription->pacing.waits_for = protocol::WaitReason::kNone;
    turns_->Serve(subscription);
  }

  // Call this if time has passed or settings have changed. Checks again whether the subscription
  // must wait.
  void CheckAgain(base::Now now, Subscription* subscription) {
    subscription->pacing.waits_for = protocol::WaitReason::kNone;
    backlog_->Unpark(now, subscription);
    if (subscription->pacing.throttle.Slowed(now.mono_ms)) {
      timers_->WakeAt(now.mono_ms + FailureThrottle::kCheckMs, subscription);
    }
    turns_->Serve(subscription);
    turns_->ReadBack(subscription);
  }

 private:
  DeliveryTimers* const timers_;
  Turns* const turns_;
  Backlog* const backlog_;
};

}  // namespace duetime::delivery
