// SPDX-License-Identifier: Apache-2.0
//
// Turns: the queues of subscriptions that have work to do.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/shard_limits.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/delivery/wait_reason.h"

namespace duetime::delivery {

// Two queues of subscriptions: the ones to serve, which have ready messages and a stream with
// credit, and the ones to read back from disk. A subscription is in each queue at most once.
//
// Code that changes a subscription calls Serve and ReadBack; both do nothing unless the
// subscription has work and may do it. Invariant: a subscription that could be served is in the
// queue. Thread safety: confined to the engine thread.
class Turns {
 public:
  // REQUIRES: `memory` outlives it.
  Turns(const ShardLimits& limits, const MemoryShare* memory)
      : frame_messages_max_(limits.frame_messages_max), memory_(memory) {
    DT_CHECK(memory_ != nullptr);
    DT_CHECK_GT(frame_messages_max_, 0u);
  }

  static bool CanServe(const Subscription& subscription) {
    return subscription.ready.count > 0 &&
           WaitReasonOf(subscription) == protocol::WaitReason::kNone;
  }
  static bool CanReadBack(const Subscription& subscription) {
    const bool unread = subscription.backlog.behind() || subscription.order.wants_read();
    return unread && !subscription.reading && !subscription.available.empty() &&
           subscription.forgets_in_flight == 0 && !subscription.paused() &&
           !subscription.state.deleting;
  }

  void Serve(Subscription* subscription) {
    if (subscription->serve_queued || !CanServe(*subscription)) return;
    subscription->serve_queued = true;
    serve_.push_back(subscription);
  }
  void ReadBack(Subscription* subscription) {
    if (subscription->read_queued || !CanReadBack(*subscription)) return;
    // Before the rest of an ordering key is read, each message in memory must have asked for its
    // key.
    const size_t ready_max = subscription->ReadsAgain() ? 1 : frame_messages_max_;
    if (subscription->ready.count >= ready_max) return;
    if (!memory_->FitsReadBack(*subscription)) {
      // Others may fill the memory. Nobody asks again for this subscription when they leave room.
      if (!memory_->full() || subscription->room_queued) return;
      subscription->room_queued = true;
      wait_for_room_.push_back(subscription);
      return;
    }
    subscription->read_queued = true;
    read_back_.push_back(subscription);
  }
  // Asks again for the subscriptions that found the memory full, if it is no longer full.
  void ReadBackIfRoom() {
    if (memory_->full()) return;
    for (Subscription* const subscription : std::exchange(wait_for_room_, {})) {
      subscription->room_queued = false;
      ReadBack(subscription);
    }
  }

  // Removes and returns the next subscription. REQUIRES: there is one.
  Subscription* NextToServe() {
    DT_CHECK(!serve_.empty());
    Subscription* const subscription = serve_.front();
    DT_CHECK(subscription->serve_queued);
    serve_.pop_front();
    subscription->serve_queued = false;
    return subscription;
  }
  Subscription* NextToReadBack() {
    DT_CHECK(!read_back_.empty());
    Subscription* const subscription = read_back_.front();
    DT_CHECK(subscription->read_queued);
    read_back_.pop_front();
    subscription->read_queued = false;
    return subscription;
  }

  // Removes a subscription that is about to be destroyed.
  void Forget(Subscription* subscription) {
    DT_CHECK(!CanServe(*subscription));
    if (subscription->serve_queued) DT_CHECK_EQ(std::erase(serve_, subscription), 1u);
    if (subscription->read_queued) DT_CHECK_EQ(std::erase(read_back_, subscription), 1u);
    if (subscription->room_queued) DT_CHECK_EQ(std::erase(wait_for_room_, subscription), 1u);
    subscription->serve_queued = subscription->read_queued = subscription->room_queued = false;
  }

  size_t to_serve() const { return serve_.size(); }
  size_t to_read_back() const { return read_back_.size(); }
  // Without room the queue waits. The end of a message makes room, and causes another step.
  bool any_to_read_back() const { return !read_back_.empty() && memory_->RoomToReadBack() > 0; }

  static void CheckInvariants(const Subscription& subscription) {
    DT_CHECK(subscription.serve_queued || !CanServe(subscription));
  }

 private:
  const size_t frame_messages_max_;
  const MemoryShare* const memory_;
  std::deque<Subscription*> serve_;
  std::deque<Subscription*> read_back_;
  // Subscriptions that were not queued to be read back because memory was full.
  std::vector<Subscription*> wait_for_room_;
};

}  // namespace duetime::delivery
