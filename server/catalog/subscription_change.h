// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionChange: creates, changes and deletes subscriptions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_output.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"
#include "server/catalog/live_topics.h"

namespace duetime::catalog {

// Creates, changes and deletes subscriptions: writes a record with the phase, sends the change to
// the shards, and writes the end when every shard has applied it. README.md draws the phases.
//
// Invariant: while Change::subscription names a subscription of the topic, its phase is not kLive.
// Cost: O(shards) per change. Thread safety: confined to the catalog's thread.
class SubscriptionChange {
 public:
  // REQUIRES: the pointers outlive it.
  SubscriptionChange(const CatalogOptions& options, CatalogState* state, Changes* changes,
                     CatalogOutput* output, LiveTopics* topics);

  // ---- Commands. REQUIRES: the topic has no change in progress.

  void Create(base::Now now, const CreateSubscription& command);
  void Update(const UpdateSubscription& command);
  void Delete(const DeleteSubscription& command);

  // ---- Steps of a change

  // Writes the record of `change->subscription` with this phase. After its commit, sends the change
  // to the shards.
  void SendToShards(TopicEntry* entry, Change* change, SubscriptionPhase phase);
  // Writes and publishes the result after every shard has applied the change.
  void OnReplies(TopicEntry* entry, const Change& change);

 private:
  // Resolves the name of the dead-letter topic to its number.
  absl::Status CompleteSettings(TopicEntry* entry, protocol::SubscriptionSettings* settings);
  // The subscription of this name. TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND.
  absl::Status Find(absl::string_view topic, const std::string& name, TopicEntry** entry,
                    SubscriptionEntry** subscription);
  // Begins the topic's change with this phase of the subscription. `tag`: the request to answer.
  void Begin(TopicEntry* entry, RequestTag tag, const std::string& name, SubscriptionPhase phase);
  void Post(const TopicEntry& entry, Change* change);

  const bool auto_create_;
  CatalogState* const state_;
  Changes* const changes_;
  CatalogOutput* const output_;
  LiveTopics* const topics_;
};

}  // namespace duetime::catalog
