// SPDX-License-Identifier: Apache-2.0
//
// Offers: passes newly due messages to their subscriptions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/core.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/scheduler/due_sink.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Makes an entry in memory for each subscription that a due message is for. If memory is full or
// older messages are on disk, makes a listing in the backlog instead. Ends a message that no
// subscription wants any more.
//
// The scheduler may offer a message twice, or at a place from which it was moved (a stale offer).
// An offer of a known message changes nothing, with two exceptions. If the store shows that the
// known place is the stale one, the entry moves, or leaves memory if the message is listed at its
// place. If an uncommitted settlement leaves the message pending, the offer is repeated after the
// commit. If damage hides what an offer needs, the next run repeats the offer. Thread safety:
// confined to the engine thread.
class Offers : public scheduler::DueSink {
 public:
  Offers(const Core& core, MessageStatus* status, MessageEnds* ends, Retries* retries);

  // REQUIRES: the message is due and claimed.
  void OnDue(base::Now now, const storage::MessageRef& message) override;

 private:
  // The state of a message among its subscriptions.
  struct Known {
    // A subscription has the message, or an earlier run has delivered it.
    bool known = false;
    // A subscription has not settled it.
    bool wanted = false;
  };
  // A subscription that must be offered the message now.
  struct Taker {
    Subscription* subscription = nullptr;
    // Its listing is damaged, so the message may have been delivered.
    bool uncertain = false;
  };
  // Adds to `takers`.
  Known FindTakers(const storage::MessageRef& message, const Topic& topic, const ProgressRows& rows,
                   bool repeats, std::vector<Taker>* takers);
  // Offers the message again when its settlement is committed, and holds the low watermark back
  // until then. REQUIRES: a settlement is not committed yet.
  void OfferAfterCommit(const storage::MessageRef& message);
  // Keeps the low watermark below the message, so that the next run offers it again: its records
  // may be readable then, after a repair or if the disk misread them. Does nothing if the store
  // cannot be read at all.
  void OfferInNextRun(const storage::MessageRef& message, const absl::Status& unread);
  bool MayHaveRows(const Topic& topic, bool repeats) const;
  // Whether the message is listed. If not, or if this is unknown, it must be offered now. REQUIRES:
  // the subscription does not have it in memory.
  Listed IsListed(const storage::MessageRef& message, const Subscription& subscription,
                  const storage::Progress* row, bool repeats);
  void Offer(base::Now now, const storage::MessageRef& message, const Taker& taker,
             const storage::Progress* row);
  // Handles an offer of a message that the subscription has in memory.
  void OfferAgain(EntryIndex index, const storage::MessageRef& message,
                  const storage::Progress* row);
  // Moves an entry, or drops it, because the store has its message at the place of the offer.
  void MoveEntry(EntryIndex index, const storage::MessageRef& message,
                 const storage::Progress* row);
  void EndUnwanted(base::Now now, const storage::MessageRef& message, bool settled);

  const Core& core_;
  MessageStatus* const status_;
  MessageEnds* const ends_;
  Retries* const retries_;
  // Scratch of one call, kept to reuse its memory.
  std::vector<Taker> takers_;
};

}  // namespace duetime::delivery
