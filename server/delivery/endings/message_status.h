// SPDX-License-Identifier: Apache-2.0
//
// MessageStatus: the delivery status of a pending message, for each subscription and in all.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription.h"

namespace duetime::delivery {

// The status over all subscriptions that a pending message is for.
struct DeliveryStatus {
  // Deliveries begun, for the subscription that has had the most.
  uint32_t attempts = 0;
  // No delivery is known, but a run that crashed may have made one.
  bool uncertain = false;
  bool in_flight = false;
  protocol::MessageState state{};
  // The progress records of the message.
  ProgressRows rows;

  // True if no subscriber has received the message, so it can be changed or cancelled.
  bool untouched() const { return attempts == 0 && !uncertain; }
};

// Answers from the table, the progress records, the backlog and the claims. Changes nothing.
//
// Cost: O(subscriptions of the topic); one read for a message that may have progress records, and
// one for each subscription with a backlog. Thread safety: confined to the engine thread.
class MessageStatus {
 public:
  explicit MessageStatus(const Core& core);

  // The earlier deliveries of a message that the subscription does not have in memory.
  struct Past {
    uint32_t attempts = 0;
    bool uncertain = false;
  };
  absl::StatusOr<Past> PastOf(const storage::MessageKey& key, Subscription* subscription,
                              const storage::Progress* row);

  // Sets all fields but `state`. `list`, if not null, gets one entry for each subscription that the
  // message is for. An error means that the store cannot be read.
  absl::StatusOr<DeliveryStatus> StatusOf(base::Now now, const storage::MessageKey& key,
                                          const Topic& topic,
                                          std::vector<protocol::SubscriptionStatus>* list);

 private:
  // Reads the message's progress records, if they may change its status; `tell`: or if they may
  // tell of attempts.
  absl::StatusOr<ProgressRows> RowsOf(const storage::MessageKey& key, const Topic& topic,
                                      bool tell);
  struct One {
    protocol::SubscriptionStatus status;
    bool uncertain = false;
  };
  absl::StatusOr<One> StatusFor(base::Now now, const storage::MessageKey& key,
                                Subscription* subscription, const storage::Progress* row);
  One StatusInMemory(base::Now now, const PendingDelivery& entry) const;
  // If the message waits on disk for its ordering key: names the holder.
  void FindHolder(const storage::MessageKey& key, const Subscription& subscription,
                  protocol::SubscriptionStatus* status);
  storage::MessageId HolderOf(uint64_t order, const Subscription& subscription) const;

  const Core& core_;
};

}  // namespace duetime::delivery
