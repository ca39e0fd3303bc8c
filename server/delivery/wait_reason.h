// SPDX-License-Identifier: Apache-2.0
//
// WaitReasonOf: what keeps due messages from being handed out.
#pragma once

#include "server/delivery/pending_deliveries.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/wait_reason.h"

namespace duetime::delivery {

// What keeps all ready messages of the subscription back. Turns asks this before it serves a
// subscription, so an explanation names what the delivery itself waits for. Cost: O(1).
inline protocol::WaitReason WaitReasonOf(const Subscription& subscription) {
  using protocol::WaitReason;
  if (subscription.topic->settings->paused()) return WaitReason::kTopicPaused;
  if (subscription.state.settings.paused()) return WaitReason::kSubscriptionPaused;
  if (subscription.streams == 0) return WaitReason::kNoSubscriber;
  if (subscription.available.empty()) return WaitReason::kNoCredit;
  return subscription.pacing.waits_for;
}

// What keeps one message in memory back. REQUIRES: the entry is not free. Cost: O(1).
inline protocol::WaitReason WaitReasonOf(const PendingDelivery& entry) {
  switch (entry.state) {
    case EntryState::kDelayed:
      return protocol::WaitReason::kRetry;
    case EntryState::kBlocked:
      return protocol::WaitReason::kOrderingKey;
    case EntryState::kReady:
      return WaitReasonOf(*entry.subscription);
    default:
      return protocol::WaitReason::kNone;
  }
}

}  // namespace duetime::delivery
