// SPDX-License-Identifier: Apache-2.0
//
// Offers: passes messages that have become due to their subscriptions.
#pragma once

#include <cstdint>
#include <vector>

#include "server/base/clock.h"
#include "server/delivery/delivery_parts.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscription.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// For each subscription that a due message is for, makes an entry in memory, or a listing in the
// backlog if memory is full or older messages are on disk. A message that no subscription wants any
// more ends.
//
// The scheduler may offer a message twice, and may offer it at a place from which it was moved: a
// stale offer. An offer of a known message changes nothing, except where the store says that the
// known place is the stale one; or where subscriptions are settling the message: the offer is
// repeated after the commit. Thread safety: confined to the engine thread.
class Offers {
 public:
  explicit Offers(const DeliveryParts& parts);

  // REQUIRES: the message is due and claimed.
  void OnDue(base::Now now, const storage::MessageRef& message);

 private:
  // What a message's subscriptions know of it.
  struct Known {
    // A subscription has the message, or an earlier run has delivered it.
    bool known = false;
    // A subscription has not settled it.
    bool wanted = false;
  };
  // Adds the subscriptions that are to be offered the message now to `takers`.
  Known FindTakers(const storage::MessageRef& message, const Topic& topic, const ProgressRows& rows,
                   bool repeats, std::vector<Subscription*>* takers);
  // Offers the message again when the settlement in flight is committed. The low watermark waits
  // for that. REQUIRES: a settlement is in flight.
  void OfferAfterCommit(const storage::MessageRef& message);
  bool MayHaveRows(const Topic& topic, bool repeats) const;
  // True if the message is neither in memory nor listed, and is to be offered now. REQUIRES: it is
  // not in memory.
  bool IsNew(const storage::MessageRef& message, const Subscription& subscription,
             const storage::Progress* row, bool repeats);
  // True if an ended message must not be offered to the subscription: it would not be found out
  // soon, and would count among the messages that the subscription keeps. The timer of a cancelled
  // message stays in the wheel.
  bool MustExist(const Subscription& subscription) const;
  void Offer(base::Now now, const storage::MessageRef& message, Subscription* subscription,
             const storage::Progress* row);
  // The message is in memory.
  void OfferAgain(EntryIndex index, const storage::MessageRef& message,
                  const storage::Progress* row);
  void MoveEntry(EntryIndex index, const storage::MessageRef& message,
                 const storage::Progress* row);
  void EndUnwanted(base::Now now, const storage::MessageKey& key, bool settled);

  scheduler::PendingWrites* const writes_;
  scheduler::KeyLocks* const key_locks_;
  OccurrenceSink* const occurrences_;
  protocol::ShardStats* const stats_;
  scheduler::Scheduler* const scheduler_;
  StoreReader* const reader_;
  PendingDeliveries* const table_;
  MemoryShare* const memory_;
  Subscriptions* const subscriptions_;
  DeliveryStates* const states_;
  Backlog* const backlog_;
  MessageStatus* const status_;
  MessageEnds* const ends_;
  Retries* const retries_;
  // Scratch, reused within one call.
  std::vector<Subscription*> takers_;
};

}  // namespace duetime::delivery
