// SPDX-License-Identifier: Apache-2.0
//
// DeliveryStates: the moves of an entry from state to state.
#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/leases.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/pending_deliveries.h"

namespace duetime::delivery {

// Moves entries between their states, together with everything that belongs to a state: the ready
// list, the timer, the lease, the ordering key and the pin on the low watermark.
//
// A move takes two calls: TakeOut leaves the old state, and one of the Make calls enters the new
// one. The callers decide which move to make. Cost: O(1). Thread safety: confined to the engine
// thread.
class DeliveryStates {
 public:
  explicit DeliveryStates(const Core& core);

  // Holds the low watermark back until the entry is listed in the backlog or removed. REQUIRES: the
  // entry does not hold it yet.
  void Pin(EntryIndex index);
  // Ends the entry's pin on the low watermark, if there is one.
  void Unpin(EntryIndex index);

  // ---- From kTaken
  //
  // The entry waits for credit, behind the other ready entries.
  void MakeReady(EntryIndex index);
  void MakeDelayed(base::Now now, EntryIndex index, uint64_t delay_ms);
  // Locks the ordering key for the entry. kWaits: another entry holds the key, and this one is
  // blocked behind it. kNoRoom: the entry stays taken, and the caller moves it to disk.
  OrderingKeyLocks::Turn LockOrder(EntryIndex index, uint64_t key);
  // The entry's end is in the open batch. The caller calls Remove when the batch is committed.
  void MakeEnding(EntryIndex index, bool ends_message);
  // The backlog record is in the open batch. The caller calls Remove when the batch is committed.
  void MakeForgetting(EntryIndex index);

  // ---- To kTaken
  //
  // Takes the first ready entry, which keeps its ordering key. REQUIRES: an entry is ready.
  EntryIndex TakeReady(Subscription* subscription);
  // Takes the entry from any state but kFree and kEnding. Passes its ordering key on.
  void TakeOut(EntryIndex index);
  // Takes a delayed entry whose timer has fired.
  void TakeDelayed(EntryIndex index);

  // Frees the entry. REQUIRES: it is taken, ending or forgetting.
  void Remove(EntryIndex index);

  // Checks that each entry has the timer, key and hold that its state requires. O(entries).
  void CheckInvariants() const;

 private:
  // Passes the ordering key to the next entry, which becomes the first ready one.
  void UnlockOrder(EntryIndex index);

  const Core& core_;
};

}  // namespace duetime::delivery
