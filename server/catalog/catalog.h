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
// Model: as shard::Shard. The runtime calls Handle() for each command, takes the records to append
// with TakeBatch(), reports each batch with OnCommitted(), and carries out the Effects. Commands to
// the shards are effects of the catalog; replies of the shards are commands to it.
//
// A topic has at most one change in progress; further changes of the topic or of its subscriptions
// wait in order. A change writes its phase before it sends commands to the shards, so that the next
// start can continue it after a crash. The catalog answers a change when every shard has applied
// it.
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

  // Reads the catalog's records, and converts those of a data directory of an older format. The
  // effects send the shards the settings that they do not keep. Call once, first. An error means
  // that the store cannot be read.
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
  // Finds the live topic of this name. With `create`, creates or revives the topic if necessary.
  // `used`: a message, a recurrence or an operator names the topic, not only a subscriber.
  absl::Status Use(absl::string_view name, bool used, bool create, TopicEntry** entry);
  // Makes a deleted topic live again, or notes in its running deletion that the topic is in use.
  void Revive(TopicEntry* entry);
  // Creates the dead-letter topic of `entry` if necessary, and sends its number to the shards. No
  // other function does.
  absl::Status LinkDeadLetters(TopicEntry* entry);
  // True if the topic needs a dead-letter topic and has no link to one. A link to a deleted topic
  // is enough: the shards watch that topic, and the first dead letter revives it.
  static bool LacksDeadLetters(const TopicEntry& entry);
  // Returns the error with which the creation of the topic `name`, or then of its dead-letter
  // topic, would fail. So a refused request creates neither. `dead_letters`: the name, empty if it
  // would be too long, or nullopt for none.
  absl::Status CheckCreation(absl::string_view name, bool used,
                             const std::optional<std::string>& dead_letters);
  // Writes the settings and sends them to the shards. `tag` is the request to answer.
  void ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings);

  // ---- Deletion of a topic (catalog.cc)
  void OnCounted(TopicEntry* entry, Change* change);
  void OnMarked(TopicEntry* entry, Change* change);
  void Hide(TopicEntry* entry, Change* change);
  void ForgetNextSubscription(TopicEntry* entry, Change* change);
  void EndDeletion(TopicEntry* entry, Change* change);

  // ---- Subscriptions (catalog_subscriptions.cc)
  // Resolves the name of the dead-letter topic to its number.
  absl::Status CompleteSettings(TopicEntry* entry, protocol::SubscriptionSettings* settings);
  // Writes the record with this phase. After its commit, sends the change to the shards.
  void SendToShards(TopicEntry* entry, Change* change, SubscriptionPhase phase);
  void PostSubscription(const TopicEntry& entry, const SubscriptionEntry& subscription,
                        Change* change);
  // Ends the change after every shard has applied it.
  void FinishSubscription(TopicEntry* entry, Change* change);

  // ---- Changes (catalog.cc)
  // If a change of the topic is in progress, queues the command and returns true.
  template <typename C>
  bool Queue(const TopicEntry& entry, C& command) {
    if (changes_.Find(entry.topic->id) == nullptr) return false;
    changes_.Wait(entry.topic->id, std::move(command));
    return true;
  }
  void Finish(TopicEntry* entry, const absl::Status& status);
  void Tell(const TopicPtr& topic, bool watch, protocol::CallTag tag);
  // Runs `next` after the commit of all decisions so far. Drops it if the journal fails.
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
  // Requests without an answer.
  std::set<RequestTag> requests_;
  // The number of shard replies and resumed changes for which the start waits.
  size_t recovering_ = 0;
  std::vector<RequestTag> await_recovery_;
  bool failed_ = false;
  // The time of the last command or completion.
  base::Now now_;
};

}  // namespace duetime::catalog
