// SPDX-License-Identifier: Apache-2.0
//
// DeliveryParts: pointers to the parts of delivery in one shard.
#pragma once

#include "server/delivery/shard_parts.h"

namespace duetime::scheduler {
class Scheduler;
}  // namespace duetime::scheduler

namespace duetime::delivery {

class Backlog;
class BacklogReader;
class CleanStop;
class DeadLetters;
class DeliveryRecords;
class DeliveryStates;
class DeliveryTimers;
class Expiry;
class HandOut;
class LeaseEnds;
class Leases;
class MemoryShare;
class MessageEnds;
class MessageStatus;
class Pacing;
class Offers;
class PendingDeliveries;
class Retention;
class Retries;
class StoreReader;
class Streams;
class SubscriptionChanges;
class SubscriptionFill;
class SubscriptionRelease;
class Subscriptions;
class Turns;

// The parts of delivery in one shard. The constructor of each part keeps the pointers that the part
// uses. All parts live as long as the Dispatcher. A part calls only parts before it in this list.
struct DeliveryParts {
  ShardParts shard;
  scheduler::Scheduler* scheduler = nullptr;
  StoreReader* reader = nullptr;
  DeliveryRecords* records = nullptr;
  PendingDeliveries* table = nullptr;
  MemoryShare* memory = nullptr;
  Subscriptions* subscriptions = nullptr;
  DeliveryTimers* timers = nullptr;
  Turns* turns = nullptr;
  Streams* streams = nullptr;
  Leases* leases = nullptr;
  DeliveryStates* states = nullptr;
  Backlog* backlog = nullptr;
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

// True if no pointer is null. The constructor of each part checks the pointers that it keeps.
template <typename... Objects>
bool AllSet(const Objects*... pointers) {
  return ((pointers != nullptr) && ...);
}

}  // namespace duetime::delivery
