// SPDX-License-Identifier: Apache-2.0
//
// CatalogOutput: the shard commands and the replies of the catalog.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <utility>

#include "absl/status/status.h"

#include "server/catalog/catalog_options.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"
#include "server/scheduler/pending_writes.h"

namespace duetime::catalog {

// The tag of a command to a shard is the number of the topic whose change sends it. kNoChange: a
// command outside a change; of its reply, only the number of messages counts. kRecovery: a command
// of the start.
inline constexpr protocol::CallTag kNoChange{};
inline constexpr protocol::CallTag kRecovery{uint64_t{1} << 32};

// Gathers the commands to shards and the replies to clients until the runtime takes them. Knows the
// requests without an answer, and answers each one once. Cost: O(shards) per command, O(log
// requests) per reply. Thread safety: confined to the catalog's thread.
class CatalogOutput {
 public:
  // REQUIRES: the pointers outlive it; options.shards > 0.
  CatalogOutput(const CatalogOptions& options, Changes* changes, scheduler::PendingWrites* writes);

  // Runs `next` after the commit of all decisions so far. Drops it if the journal fails.
  void Then(std::function<void()> next);

  // ---- Shards

  // Sends the settings of the topic to every shard. While the topic is deleted or being deleted,
  // the shards report its next message.
  void SendSettings(const TopicPtr& topic, protocol::CallTag tag);
  // Begins a step of the topic's change. The step ends when every shard has replied.
  void SendStep(Change* change, Step step, const TopicPtr& topic);
  void SendStep(Change* change, Step step, protocol::SubscriptionCommand command);

  // ---- Requests

  void Open(RequestTag tag) { requests_.insert(tag); }
  size_t open_requests() const { return requests_.size(); }
  // Drops the reply if the request has an answer, or if no client waits.
  void Answer(Reply reply);
  // Answers after the commit of all decisions so far.
  void AnswerLater(Reply reply);
  // Answers every open request with this error.
  void Close(const absl::Status& status);
  // Reports the failure of the journal, and answers every open request with STORAGE_FAILED.
  void Fail();

  // Returns the effects since the last call, without a snapshot.
  Effects Take() { return std::exchange(effects_, Effects{}); }

 private:
  const CatalogOptions options_;
  Changes* const changes_;
  scheduler::PendingWrites* const writes_;
  Effects effects_;
  std::set<RequestTag> requests_;
};

}  // namespace duetime::catalog
