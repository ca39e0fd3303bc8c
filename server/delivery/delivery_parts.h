// SPDX-License-Identifier: Apache-2.0
//
// DeliveryParts: pointers to the deciding parts of delivery in one shard.
#pragma once

#include "server/delivery/core.h"

namespace duetime::delivery {

// The parts of delivery in one shard that decide something. Each calls only those before it, which
// its constructor names, and the objects of Core.
struct DeliveryParts {
  Pacing* pacing = nullptr;
  MessageStatus* status = nullptr;
  MessageEnds* ends = nullptr;
  DeadLetters* dead_letters = nullptr;
  Retries* retries = nullptr;
  SubscriptionFill* fill = nullptr;
  BacklogReader* backlog_reader = nullptr;
  Retention* retention = nullptr;
  Expiry* expiry = nullptr;
  SubscriptionRelease* release = nullptr;
  Offers* offers = nullptr;
  LeaseEnds* lease_ends = nullptr;
  HandOut* hand_out = nullptr;
  SubscriptionChanges* changes = nullptr;
  CleanStop* clean_stop = nullptr;
};

}  // namespace duetime::delivery
