// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionRelease: drops the messages of deleted subscriptions.
#pragma once

#include <deque>

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"

namespace duetime::delivery {

// Works through the entries of a deleted subscription and then through its backlog, in slices, and
// drops each message for that subscription. Subscriptions take turns. When nothing is left the
// subscription is destroyed.
//
// Cost: one read for each message, one walk over the table for each subscription. Thread safety:
// confined to the engine thread.
class SubscriptionRelease {
 public:
  SubscriptionRelease(const Core& core, MessageEnds* ends, BacklogReader* backlog_reader,
                      SubscriptionFill* fill);

  // REQUIRES: state.deleting is set.
  void Start(Subscription* subscription);
  // Drops a slice. True if there is more to do now; otherwise the release continues after a commit.
  bool Step(base::Now now);

 private:
  // How far one slice came.
  enum class Progress {
    // Nothing is left.
    kDone,
    // There is more to do now.
    kMore,
    // The next message waits for a commit.
    kBlocked,
  };
  Progress ReleaseEntries(base::Now now, Subscription* subscription);
  // False if the entry waits for a commit.
  bool ReleaseEntry(base::Now now, EntryIndex index);
  Progress ReleaseBacklog(base::Now now, Subscription* subscription);

  const Core& core_;
  MessageEnds* const ends_;
  BacklogReader* const backlog_reader_;
  SubscriptionFill* const fill_;
  std::deque<Subscription*> releasing_;
};

}  // namespace duetime::delivery
