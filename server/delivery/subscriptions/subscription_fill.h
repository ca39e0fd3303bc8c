// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionFill: lists messages in a backlog that is new or damaged.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// A new subscription may ask for all messages that still exist. Messages that are already due were
// offered to the other subscriptions before, so the fill lists them in the new backlog, in slices.
// New messages are listed behind them. After a crash the fill begins again.
//
// Damage of a backlog hides messages whose own records are sound. The fill lists them anew, as
// maybe delivered, once for each damaged block that is found. They may come after messages that are
// due later.
//
// A message that cannot be read may be readable in the next run. So that run repeats the fill.
//
// Cost: one walk over the topic's due messages. Thread safety: confined to the engine thread.
class SubscriptionFill {
 public:
  SubscriptionFill(const Core& core, MessageEnds* ends);

  // REQUIRES: state.fill_until_ms is set.
  void Start(Subscription* subscription);
  // Call when a scan of the subscription's backlog went around damage. True if a fill begins.
  bool OnDamage(base::Now now, Subscription* subscription);
  // Lists a slice. True if there is more to do now.
  bool Step();

 private:
  // The next messages of the topic that are due until fill_until_ms. `next` is empty at the end.
  absl::StatusOr<storage::Page<storage::MessageHeadRef>> ReadPage(const Subscription& subscription);
  // False if the message must be listed later, in another step.
  bool List(const storage::MessageHeadRef& item, Subscription* subscription);
  void Begin(Subscription* subscription);
  void Finish(Subscription* subscription);

  const Core& core_;
  const MessageEnds* const ends_;
  std::deque<Subscription*> filling_;
};

}  // namespace duetime::delivery
