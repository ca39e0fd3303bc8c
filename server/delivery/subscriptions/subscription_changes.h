// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionChanges: creates, changes and deletes subscriptions in one shard.
#pragma once

#include <optional>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/commands.h"

namespace duetime::delivery {

// Carries out the commands about topics and subscriptions. A change takes effect at once and is
// answered when it is committed. Thread safety: confined to the engine thread.
class SubscriptionChanges {
 public:
  SubscriptionChanges(const Core& core, Pacing* pacing, SubscriptionFill* fill, Expiry* expiry,
                      SubscriptionRelease* release);

  // Reads the subscriptions, and continues releases and fills that a crash interrupted.
  absl::Status Recover(base::Now now);

  void SetTopic(base::Now now, const protocol::TopicCommand& command);
  void Change(base::Now now, protocol::SubscriptionCommand command);
  void Inspect(const protocol::InspectSubscriptionCommand& command);
  void Inspect(const protocol::ActivityCommand& command);
  // A stream begins to receive messages of a subscription. Nothing happens if that was deleted.
  void Attach(base::Now now, const protocol::AttachCommand& command);

 private:
  void Create(base::Now now, protocol::SubscriptionCommand command);
  void Update(base::Now now, Subscription* subscription,
              const protocol::SubscriptionSettings& settings);
  void Delete(base::Now now, Subscription* subscription, bool keep_messages);
  // Removes the name and settings of a subscription. Its messages stay for the next one that a
  // client names.
  void Unname(base::Now now, Subscription* subscription);
  protocol::SubscriptionGauges GaugesOf(const Subscription& subscription) const;
  std::optional<protocol::LongestKey> LongestKeyOf(const Subscription& subscription);

  const Core& core_;
  Pacing* const pacing_;
  SubscriptionFill* const fill_;
  Expiry* const expiry_;
  SubscriptionRelease* const release_;
};

}  // namespace duetime::delivery
