// SPDX-License-Identifier: Apache-2.0
//
// Pacing: makes subscriptions wait for their pace, and wakes them up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/core.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

// Connects a subscription's SubscriptionPacing with its wake-up timer and its turns.
//
// Invariant: a subscription that waits for its pace, or is slowed, has a wake-up timer. Cost: O(1).
// Thread safety: confined to the engine thread.
class Pacing {
 public:
  explicit Pacing(const Core& core) : core_(core) {}

  // True if one message that was due at `due_ms` may be handed out now.
  static bool Take(base::Now now, uint64_t due_ms, Subscription* subscription) {
    return subscription->pacing.Take(now, due_ms);
  }
  // Call this if Take refused. The subscription waits until Take can grant a message.
  void Wait(base::Now now, uint64_t due_ms, Subscription* subscription) {
    core_.timers.WakeAt(subscription->pacing.Wait(now, due_ms), subscription);
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
    core_.timers.WakeAt(now.mono_ms + FailureThrottle::kCheckMs, subscription);
  }
  void OnSuccess(Subscription* subscription) {
    if (!subscription->pacing.throttle.OnSuccess()) return;
    subscription->pacing.waits_for = protocol::WaitReason::kNone;
    core_.turns.Serve(subscription);
  }

  // Call this if time has passed or settings have changed. Checks again whether the subscription
  // must wait.
  void CheckAgain(base::Now now, Subscription* subscription) {
    subscription->pacing.waits_for = protocol::WaitReason::kNone;
    core_.backlog.Unpark(now, subscription);
    if (subscription->pacing.throttle.Slowed(now.mono_ms)) {
      core_.timers.WakeAt(now.mono_ms + FailureThrottle::kCheckMs, subscription);
    }
    core_.turns.Serve(subscription);
    core_.turns.ReadBack(subscription);
  }

  // Call this if the wall clock has moved against the steady clock. Looks again at the backlogs
  // that wait for a time of the wall clock. Cost: O(subscriptions).
  void OnClockStep(base::Now now) {
    std::vector<Subscription*> parked;
    core_.subscriptions.ForEach([&parked](Subscription& subscription) {
      if (subscription.backlog.parked().has_value()) parked.push_back(&subscription);
    });
    // The order must not depend on the hash table.
    std::sort(parked.begin(), parked.end(), [](const Subscription* a, const Subscription* b) {
      return a->state.id < b->state.id;
    });
    for (Subscription* const subscription : parked) CheckAgain(now, subscription);
  }

 private:
  const Core& core_;
};

}  // namespace duetime::delivery
