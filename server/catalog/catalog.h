// SPDX-License-Identifier: Apache-2.0
//
// Catalog: the topics and subscriptions of a server, as a state machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/catalog/catalog_output.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/commands.h"
#include "server/catalog/live_topics.h"
#include "server/catalog/subscription_change.h"
#include "server/catalog/topic_deletion.h"
#include "storage/message_store.h"

namespace duetime::catalog {

// Creates, changes and deletes topics and subscriptions; README.md draws the transitions.
//
// Model: as shard::Shard. The runtime calls Handle() for each command, takes the records to append
// with TakeBatch(), reports each batch with OnCommitted(), and carries out the Effects. Commands to
// the shards are effects of the catalog; replies of the shards are commands to it.
//
// A topic has at most one change in progress; further changes of the topic or of its subscriptions
// wait in order. A change writes its phase before it sends commands to the shards, so that the next
// start can continue it after a crash. The catalog answers a change when every shard has applied
// it. One part carries out each kind of change: LiveTopics, TopicDeletion and SubscriptionChange.
//
// The catalog has no clock, thread, lock or network. It reads the store only in Recover(). The same
// inputs give the same effects. Thread safety: confined to one thread.
class Catalog {
 public:
  // REQUIRES: `store` outlives the catalog; options.shards > 0.
  Catalog(const CatalogOptions& options, storage::MessageStore* store);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Reads the catalog's records. The effects send the shards the settings that they do not keep.
  // Call once, first. An error means that the store cannot be read.
  absl::Status Recover(base::Now now);

  void Handle(base::Now now, Command command);

  // REQUIRES: sequences come in order.
  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome);

  // Returns the records decided since the last call; nullopt if there are none. Call it before
  // TakeEffects, because decisions without a record take effect here.
  std::optional<scheduler::PendingWrites::Batch> TakeBatch();
  Effects TakeEffects();

  // True after a failure of the journal. The catalog then answers every request with
  // STORAGE_FAILED.
  bool failed() const { return failed_; }

  // Requests without an answer. The runtime limits them.
  size_t open_requests() const { return output_.open_requests(); }

  // Answers every open request with DRAINING. The next start continues open changes.
  void Stop();

  // For tests; O(entries).
  void CheckInvariants() const;

 private:
  void SetNow(base::Now now) {
    now_ = now;
    state_.SetNow(now.wall_ms);
  }

  // ---- Commands
  void Do(EnsureTopic& command);
  void Do(CreateTopic& command);
  void Do(UpdateTopic& command);
  void Do(DeleteTopic& command);
  void Do(CreateSubscription& command);
  void Do(UpdateSubscription& command);
  void Do(DeleteSubscription& command);
  void Do(AwaitRecovery& command);
  void Do(TopicUsed& command);
  void Do(Resume& command);
  void Do(protocol::TopicReply& reply);
  void Do(protocol::SubscriptionReply& reply);

  // If a change of the topic is in progress, queues the command and returns true.
  template <typename C>
  bool Waits(absl::string_view topic, C& command) {
    const TopicEntry* const entry = state_.Find(topic);
    if (entry == nullptr || changes_.Find(entry->topic->id) == nullptr) return false;
    changes_.Wait(entry->topic->id, std::move(command));
    return true;
  }
  // Ends the change of the topic, answers it, and runs the commands that waited for its end.
  void Finish(TopicEntry* entry, const absl::Status& status);
  void Fail();
  void ResumeChanges();
  void OnRecoveryReply();

  const CatalogOptions options_;
  storage::MessageStore* const store_;
  scheduler::PendingWrites writes_;
  CatalogState state_;
  Changes changes_;
  CatalogOutput output_;
  LiveTopics topics_;
  SubscriptionChange subscriptions_;
  TopicDeletion deletion_;
  // The number of shard replies and resumed changes for which the start waits.
  size_t recovering_ = 0;
  std::vector<RequestTag> await_recovery_;
  bool failed_ = false;
  // The time of the last command or completion.
  base::Now now_;
};

}  // namespace duetime::catalog
