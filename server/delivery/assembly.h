// SPDX-License-Identifier: Apache-2.0
//
// DeliveryAssembly: makes and connects the parts of delivery.
#pragma once

#include <memory>

#include "server/delivery/delivery_parts.h"

namespace duetime::delivery {

// Owns the parts of one shard, and gives each part pointers to the parts that it calls. Thread
// safety: confined to the engine thread.
class DeliveryAssembly {
 public:
  // REQUIRES: all pointers outlive it.
  DeliveryAssembly(const ShardParts& shard, scheduler::Scheduler* scheduler);
  ~DeliveryAssembly();
  DeliveryAssembly(const DeliveryAssembly&) = delete;
  DeliveryAssembly& operator=(const DeliveryAssembly&) = delete;

  const DeliveryParts& parts() const;

  // Checks the invariants of each part and those between parts. For tests. Cost: O(entries).
  void CheckInvariants() const;

 private:
  struct Owned;
  const std::unique_ptr<Owned> owned_;
};

}  // namespace duetime::delivery
