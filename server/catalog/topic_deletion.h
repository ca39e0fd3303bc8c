// SPDX-License-Identifier: Apache-2.0
//
// TopicDeletion: deletes topics, step by step.
#pragma once

#include <functional>

#include "absl/status/status.h"

#include "server/catalog/catalog_output.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"
#include "server/catalog/subscription_change.h"

namespace duetime::catalog {

// Deletes topics: the shards watch the topic and count its messages, a record marks the topic,
// readers lose it, the shards forget its settings and its subscriptions, and a last record ends the
// deletion. README.md draws the steps.
//
// Invariants: the topic is hidden only after the record DELETING is committed; a topic that is used
// before the last record stays live. Cost: O(shards) per step and per subscription of the topic.
// Thread safety: confined to the catalog's thread.
class TopicDeletion {
 public:
  // Ends the change of the topic with this status.
  using Finish = std::function<void(TopicEntry* entry, const absl::Status& status)>;

  // REQUIRES: the pointers outlive it.
  TopicDeletion(CatalogState* state, Changes* changes, CatalogOutput* output,
                SubscriptionChange* subscriptions, Finish finish);

  // REQUIRES: the topic has no change in progress.
  void Begin(const DeleteTopic& command);
  // Continues a deletion of the previous run after the record DELETING.
  void Resume(TopicEntry* entry, Change* change);
  // Continues after every shard has replied to the TopicCommand of a step.
  void OnReplies(TopicEntry* entry, Change* change);
  // Deletes one more subscription of the hidden topic. After the last one, ends the deletion.
  void ForgetNextSubscription(TopicEntry* entry, Change* change);

 private:
  void OnCounted(TopicEntry* entry, Change* change);
  void OnMarked(TopicEntry* entry, Change* change);
  void Hide(TopicEntry* entry, Change* change);
  void End(TopicEntry* entry, Change* change);

  CatalogState* const state_;
  Changes* const changes_;
  CatalogOutput* const output_;
  SubscriptionChange* const subscriptions_;
  const Finish finish_;
};

}  // namespace duetime::catalog
