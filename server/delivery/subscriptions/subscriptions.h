// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions: the topics and subscriptions that a shard knows.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/delivery/shard_parts.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/activity.h"

namespace duetime::delivery {

// Finds topics and subscriptions by number, and keeps the state of each subscription on disk.
//
// A topic has at least one subscription: the first one has the topic's number and exists from the
// first look-up of the topic. A deleted subscription is destroyed when none of its messages is
// left. Commands may still name its number, which is not given again.
//
// Each subscription has an object on disk. At most two deleted subscriptions of a topic keep their
// objects: the first one, and one that shows that progress records of deleted ones may exist.
//
// Cost: O(1) for a look-up. Thread safety: confined to the engine thread.
class Subscriptions {
 public:
  // REQUIRES: `store` and `writer` of `parts` outlive it.
  explicit Subscriptions(const ShardParts& parts);

  // Reads the subscriptions and returns those that are not deleted, in the order of the store. Call
  // once, first. An error means that the store cannot be read.
  absl::StatusOr<std::vector<Subscription*>> Recover(base::Now now);

  // Returns the topic. A new topic gets its first subscription.
  Topic* TopicOf(storage::TopicId id);
  // nullptr if there is none. Also finds a subscription that is being deleted.
  Subscription* Find(storage::SubscriptionId id) const;

  // REQUIRES: no subscription has this number.
  Subscription* Add(protocol::SubscriptionState state, Topic* topic);
  void Save(const Subscription& subscription);
  // Lets the store count the messages of the topic as done for a subscription that begins now.
  void SaveStart(const Subscription& subscription);
  // Destroys the subscription. REQUIRES: it is being deleted, and no entry, listing in flight,
  // stream, turn or timer names it.
  void Remove(Subscription* subscription);

  // The subscriptions that do not keep every message, in turn. Call CollectRetaining when settings
  // have changed.
  std::deque<Subscription*>& retaining() { return retaining_; }
  const std::deque<Subscription*>& retaining() const { return retaining_; }
  void CollectRetaining();

  size_t size() const { return subscriptions_.size(); }
  // What has happened in a topic, for those that count it.
  protocol::TopicActivity& ActivityOf(storage::TopicId topic) { return activity_[topic]; }
  // Subscriptions that are slowed because their attempts fail.
  size_t slowed() const { return failure_rate_.slowed(); }

  // Gives the topic its settings, and the server's value for an absent tombstone retention.
  void SetSettings(Topic* topic, protocol::TopicSettingsPtr settings) const;
  // Takes the name and the settings away. Changes nothing on disk.
  void Unname(Subscription* subscription) const;

  // Calls visit(subscription) for each one, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [id, subscription] : subscriptions_) visit(*subscription);
  }
  void CheckInvariants() const;

 private:
  Topic* AddTopic(storage::TopicId id);
  // Notes a deletion in the topic. True if the subscription's object must stay on disk.
  static bool NoteDeletion(storage::SubscriptionId id, Topic* topic);
  void RemoveObject(storage::SubscriptionId id);

  const uint16_t shard_;
  const ShardLimits limits_;
  storage::MessageStore* const store_;
  scheduler::MessageWriter* const writer_;
  base::Now start_;
  FailureRate failure_rate_;
  absl::flat_hash_map<storage::TopicId, std::unique_ptr<Topic>> topics_;
  absl::flat_hash_map<storage::SubscriptionId, std::unique_ptr<Subscription>> subscriptions_;
  std::deque<Subscription*> retaining_;
  absl::flat_hash_map<storage::TopicId, protocol::TopicActivity> activity_;
};

}  // namespace duetime::delivery
