// SPDX-License-Identifier: Apache-2.0
//
// DeliveryTimers: the ends of leases and delays, and the wake-ups of subscriptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/wheel/cancellable_wheel.h"

namespace duetime::delivery {

// Holds one timer for each entry that is in flight or delayed, and one for each subscription that
// waits for its pace or for the first place of its backlog. Times are on the steady clock.
//
// Invariant: a stamp is set exactly while its timer waits here. Cost: that of the wheel. Thread
// safety: confined to the engine thread.
class DeliveryTimers {
 public:
  // Names an entry or, if `index` is kNoEntry, a subscription. It holds numbers, because a pointer
  // would double its size.
  struct Timer {
    EntryIndex index = kNoEntry;
    storage::SubscriptionId subscription{};
  };

  // REQUIRES: all pointers outlive it.
  DeliveryTimers(PendingDeliveries* table, const Subscriptions* subscriptions,
                 wheel::SlabMemory* slabs)
      : table_(table), wheel_(0, FindStamp{table, subscriptions}, slabs) {
    DT_CHECK(table != nullptr);
    DT_CHECK(subscriptions != nullptr);
  }

  // Starts the timer of a lease or delay that ends at `mono_ms`. REQUIRES: the entry has no timer.
  void Start(EntryIndex index, uint64_t mono_ms) {
    (*table_)[index].wait_end_mono_ms = mono_ms;
    Postpone(index, mono_ms);
  }
  // Lets the timer fire at `mono_ms`, without a change to the promised end. REQUIRES: the entry has
  // no timer.
  void Postpone(EntryIndex index, uint64_t mono_ms) {
    DT_CHECK_LT(index, table_->capacity());
    PendingDelivery& entry = (*table_)[index];
    DT_CHECK(entry.state == EntryState::kInFlight || entry.state == EntryState::kDelayed);
    wheel_.Add(mono_ms, Timer{.index = index, .subscription = {}}, &entry.timer);
  }
  void Cancel(EntryIndex index) { wheel_.Cancel(&(*table_)[index].timer); }

  // Sets the subscription's timer to `mono_ms`, unless it fires earlier.
  void WakeAt(uint64_t mono_ms, Subscription* subscription) {
    if (!subscription->wake.none()) {
      if (subscription->wake_mono_ms <= mono_ms) return;
      wheel_.Cancel(&subscription->wake);
    }
    subscription->wake_mono_ms = mono_ms;
    wheel_.Add(mono_ms, Timer{.index = kNoEntry, .subscription = subscription->state.id},
               &subscription->wake);
  }

  // Cancels the timer of a subscription that is about to be destroyed.
  void CancelWake(Subscription* subscription) { wheel_.Cancel(&subscription->wake); }

  // Calls fire(timer) for at most `budget` timers whose time has come. False if more remain.
  template <typename Fire>
  bool Advance(uint64_t now_mono_ms, size_t budget, const Fire& fire) {
    DT_CHECK_GT(budget, 0u);
    expired_.clear();
    const bool all = wheel_.Advance(now_mono_ms, budget, &expired_);
    for (const auto& expired : expired_) fire(expired.entry);
    return all;
  }

  uint64_t NextDue() const { return wheel_.NextDue(); }
  size_t size() const { return wheel_.size(); }
  void CheckInvariants() const { wheel_.CheckInvariants(); }

 private:
  struct FindStamp {
    PendingDeliveries* table;
    const Subscriptions* subscriptions;
    wheel::TimerStamp* operator()(const Timer& timer) const {
      if (timer.index != kNoEntry) return &(*table)[timer.index].timer;
      Subscription* const subscription = subscriptions->Find(timer.subscription);
      return subscription == nullptr ? nullptr : &subscription->wake;
    }
  };
  using Wheel = wheel::CancellableWheel<Timer, FindStamp>;

  PendingDeliveries* const table_;
  Wheel wheel_;
  // Scratch, reused.
  std::vector<Wheel::Expired> expired_;
};

}  // namespace duetime::delivery
