// SPDX-License-Identifier: Apache-2.0
//
// Catalog: the topics and subscriptions of a server, as a state machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"
#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::catalog {

// Creates, changes and deletes topics and subscriptions; README.md draws the transitions.
//
// Model: that of shard::Shard. The runtime calls Handle() for each command, takes the records to
// append with TakeBatch(), reports each batch with OnCommitted(), and carries out the Effects. The
// shards are peers: their commands are effects, and their replies are commands.
//
// One change of a topic or of its subscriptions is under way at a time; others wait in order. A
// change writes its phase before it asks the shards, so a crash at any point leaves a record from
// which the next start continues. A change is answered when every shard has it.
//
// Not in it: clock, thread, lock, network. It reads the store only in Recover(). The same inputs
// give the same effects. Thread safety: confined to one thread.
class Catalog {
 public:
  // REQUIRES: `store` outlives the catalog; options.shards > 0.
  Catalog(const CatalogOptions& options, storage::MessageStore* store);
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // Reads the catalog's records, and takes over those of a data directory of an older format. The
  // effects carry to the shards what they do not keep. Call once, first. An error means that the
  // store cannot be read.
  absl::Status Recover(base::Now now);

  void Handle(base::Now now, Command command);

  // REQUIRES: sequences come in order.
  void OnCommitted(base::Now now, uint64_t sequence, storage::AppendOutcome outcome);

  // The records decided since the last call, or nothing. Call before TakeEffects: decisions that
  // need no record take effect here.
  std::optional<scheduler::PendingWrites::Batch> TakeBatch();
  Effects TakeEffects();

  // True once the journal failed: every command is answered with STORAGE_FAILED.
  bool failed() const { return failed_; }

  // Requests without an answer. The runtime limits them.
  size_t open_requests() const { return requests_.size(); }

  // Answers every open request with DRAINING. The next start continues open changes.
  void Stop();

  // For tests; O(entries).
  void CheckInvariants() const;

 private:
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

  // ---- Topics (catalog.cc)
  // The live topic of this name: created, or revived, if `create`. `used`: not only a subscriber
  // names it.
  absl::Status Use(absl::string_view name, bool used, bool create, TopicEntry** entry);
  // A topic that was deleted, or is being deleted, is in use again.
  void Revive(TopicEntry* entry);
  // Sees to it that the dead-letter topic of `entry` is there and that the shards know it. The only
  // place that does.
  absl::Status LinkDeadLetters(TopicEntry* entry);
  static bool NeedsDeadLetters(const TopicEntry& entry);
  // Gives the topic these settings, and sends them to the shards, under `tag`.
  void ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings);

  // ---- Deletion of a topic (catalog.cc)
  void OnCounted(TopicEntry* entry, Change* change);
  void OnMarked(TopicEntry* entry, Change* change);
  void Hide(TopicEntry* entry, Change* change);
  void ForgetNextSubscription(TopicEntry* entry, Change* change);
  void EndDeletion(TopicEntry* entry, Change* change);

  // ---- Subscriptions (catalog_subscriptions.cc)
  // The names of the topics that dead letters go to become numbers.
  absl::Status CompleteSettings(TopicEntry* entry, protocol::SubscriptionSettings* settings);
  // Writes the record in this phase and sends the change to the shards once it is committed.
  void SendToShards(TopicEntry* entry, Change* change, SubscriptionPhase phase);
  void PostSubscription(const TopicEntry& entry, const SubscriptionEntry& subscription,
                        Change* change);
  // Every shard has the change.
  void Settle(TopicEntry* entry, Change* change);

  // ---- Changes (catalog.cc)
  // True if the command has to wait for a change of the topic; then it was queued.
  template <typename C>
  bool Queue(const TopicEntry& entry, C& command) {
    if (changes_.Find(entry.topic->id) == nullptr) return false;
    changes_.Wait(entry.topic->id, std::move(command));
    return true;
  }
  void Finish(TopicEntry* entry, const absl::Status& status);
  void Tell(const TopicPtr& topic, bool watch, protocol::CallTag tag);
  // Runs when all that was decided so far is committed; not if the journal fails.
  void Then(std::function<void(base::Now)> next);
  void PublishLater(TopicPtr topic);
  void Answer(Reply reply);
  void AnswerLater(Reply reply);
  void Fail();
  void CloseRequests(const absl::Status& status);
  void ResumeChanges();
  void OnRecoveryReply();

  const CatalogOptions options_;
  storage::MessageStore* const store_;
  scheduler::PendingWrites writes_;
  CatalogState state_;
  Effects effects_;
  Changes changes_;
  // Without an answer.
  std::set<RequestTag> requests_;
  // Replies of shards and resumed changes that the start waits for.
  size_t recovering_ = 0;
  std::vector<RequestTag> await_recovery_;
  bool failed_ = false;
  // The time of the last command or completion.
  base::Now now_;
};

}  // namespace duetime::catalog
