// SPDX-License-Identifier: Apache-2.0
//
// DeliveryAssembly: makes and connects the parts of delivery, which deliver due messages until they
// are settled.
#pragma once

#include <memory>

#include "server/delivery/core.h"
#include "server/delivery/delivery_parts.h"

namespace duetime::delivery {

// Owns the objects of Core and the parts of one shard, and gives each part those that it calls.
//
// Together they keep each due message until all its subscriptions have settled it. A message is for
// all subscriptions of its topic that cover it, and the last one that settles it ends it.
//
// Guarantees, for each subscription: (1) a message is leased to one stream at a time; (2) nothing
// is handed out before it is due and claimed; (3) first deliveries start in the order in which
// messages became due; (4) nothing ever waits for a subscriber: a subscription without credit costs
// at most its share of memory; (5) entries in memory are bounded (ShardLimits); (6) of the messages
// of one ordering key at most one is in flight, or waits in memory for its next attempt. Thread
// safety: confined to the engine thread.
class DeliveryAssembly {
 public:
  // REQUIRES: all pointers outlive it.
  DeliveryAssembly(const ShardParts& shard, scheduler::Scheduler* scheduler);
  ~DeliveryAssembly();
  DeliveryAssembly(const DeliveryAssembly&) = delete;
  DeliveryAssembly& operator=(const DeliveryAssembly&) = delete;

  const Core& core() const;
  const DeliveryParts& parts() const;

  // REQUIRES: called before the first step.
  void SetOccurrences(OccurrenceSink* occurrences);

  // Checks the invariants of each part and those between parts. For tests. Cost: O(entries).
  void CheckInvariants() const;

 private:
  struct Owned;
  const std::unique_ptr<Owned> owned_;
};

}  // namespace duetime::delivery
