// SPDX-License-Identifier: Apache-2.0
//
// HoldOf: what keeps due messages from being handed out.
#pragma once

#include "server/delivery/pending_deliveries.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/hold.h"

namespace duetime::delivery {

// What keeps all ready messages of the subscription back. Turns asks this before it serves a
// subscription, so an explanation names what the delivery itself waits for. Cost: O(1).
inline protocol::Hold HoldOf(const Subscription& subscription) {
  using protocol::Hold;
  if (subscription.topic->paused) return Hold::kTopicPaused;
  if (subscription.state.settings.paused) return Hold::kSubscriptionPaused;
  if (subscription.streams == 0) return Hold::kNoSubscriber;
  if (subscription.available.empty()) return Hold::kNoCredit;
  return subscription.pacing.waits_for;
}

// What keeps one message in memory back. REQUIRES: the entry is not free. Cost: O(1).
inline protocol::Hold HoldOf(const PendingDelivery& entry) {
  switch (entry.state) {
    case EntryState::kDelayed:
      return protocol::Hold::kRetry;
    case EntryState::kBlocked:
      return protocol::Hold::kOrderingKey;
    case EntryState::kReady:
      return HoldOf(*entry.subscription);
    default:
      return protocol::Hold::kNone;
  }
}

}  // namespace duetime::delivery
