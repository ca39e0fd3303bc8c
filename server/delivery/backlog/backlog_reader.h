// SPDX-License-Identifier: Apache-2.0
//
// BacklogReader: brings messages of the backlog back to memory.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Reads a subscription's backlog page by page, from its position on. Each page is claimed durably
// before its messages are ready, so that a cancel after a crash knows which of them may have been
// delivered.
//
// A listing is stale if its message was moved or ended since. The reader asks the store and removes
// a stale listing.
//
// Guarantees: (1) messages become ready in the order of their places; (2) at most one page of a
// subscription waits for its claim. Cost: one scan and one claim for each page. Thread safety:
// confined to the engine thread.
class BacklogReader {
 public:
  BacklogReader(const Core& core, Retries* retries, SubscriptionFill* fill);

  // Reads pages back in the turns of their subscriptions, as far as memory has room. An error means
  // that the store cannot be read.
  absl::Status Step(base::Now now);
  // Reads the next page. REQUIRES: there is room (MemoryShare::RoomToReadBack).
  absl::Status ReadPage(base::Now now, Subscription* subscription);

  // Adds an entry in state kTaken, without a claim, for a listed message that is about to end.
  // Removes a stale listing. Returns kNoEntry if the listing is stale or the store cannot be read.
  EntryIndex TakeListed(const storage::BacklogRef& item, Subscription* subscription);

 private:
  // Handles a page in which every message waits for a later time.
  void OnNothingDue(base::Now now, Subscription* subscription,
                    const std::vector<storage::BacklogRef>& later);
  void ClaimPage(Subscription* subscription, std::vector<storage::BacklogRef> page);
  void OnClaimed(base::Now now, Subscription* subscription,
                 const std::vector<storage::BacklogRef>& page);
  void TakeUp(base::Now now, Subscription* subscription, const storage::BacklogRef& item);
  EntryIndex AddEntry(const storage::BacklogRef& item, Subscription* subscription,
                      const storage::Progress* row, bool uncertain);
  // Removes the listing of a locked message if the message does not lie there any more. The command
  // that holds the lock handles the message's present place.
  void UnlistIfStale(const storage::BacklogRef& item, Subscription* subscription);
  // Handles a listing whose message is in memory at another due time.
  void ReadAgain(base::Now now, EntryIndex index, const storage::BacklogRef& item);

  const Core& core_;
  Retries* const retries_;
  SubscriptionFill* const fill_;
};

}  // namespace duetime::delivery
