// SPDX-License-Identifier: Apache-2.0
//
// Retention: drops messages that are beyond a subscription's bounds of age and number.
#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// A subscription may bound its messages by age and by number. Messages beyond a bound are dropped
// or become dead letters, oldest first and in slices, whether or not the subscription has streams.
// The subscriptions of a topic paused by a restore drop nothing: after a restore, an operator
// decides first.
//
// The number counts ready and listed messages (BacklogCount). A walk over the backlog counts the
// listed messages after a start, after a change of settings, and after as many drops as there are
// messages, so that errors do not add up.
//
// Cost: one read for each dropped message, and one page for each visited subscription. Thread
// safety: confined to the engine thread.
class Retention {
 public:
  Retention(const Core& core, MessageEnds* ends, DeadLetters* dead_letters,
            BacklogReader* backlog_reader, SubscriptionFill* fill);

  // True if the subscription has kept the message for too long.
  static bool TooOld(base::Now now, const PendingDelivery& entry);
  // True if the subscription has more messages than it may keep.
  bool TooMany(const Subscription& subscription) const;

  // Drops the message for the entry's subscription. False if the topic for dead letters is not
  // known; then nothing has changed. REQUIRES: the entry's record was learned.
  bool GiveUp(base::Now now, EntryIndex index);

  // Drops a slice for some of the subscriptions, in turn. True if there is more to do now.
  bool Step(base::Now now);

  // When the first waiting message is too old, on the wall clock, or earlier; UINT64_MAX if none
  // will be. Cost: O(subscriptions with a retention).
  uint64_t NextTooOld() const;

 private:
  // These return true if there is more to do now.
  //
  // Counts a page of listed messages. REQUIRES: the count is not known.
  bool CountListed(Subscription* subscription);
  bool GiveUpReady(base::Now now, Subscription* subscription);
  bool GiveUpListed(base::Now now, Subscription* subscription);

  // False if the listed message must be tried again later.
  bool GiveUpOneListed(base::Now now, const storage::BacklogRef& item, Subscription* subscription);
  void RecountIfMany(Subscription* subscription);

  const Core& core_;
  const uint64_t shards_;
  MessageEnds* const ends_;
  DeadLetters* const dead_letters_;
  BacklogReader* const backlog_reader_;
  SubscriptionFill* const fill_;
};

}  // namespace duetime::delivery
