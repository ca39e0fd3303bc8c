// SPDX-License-Identifier: Apache-2.0
//
// LiveTopics: creates, revives and changes topics, and links their dead-letter topics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_output.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"

namespace duetime::catalog {

// Guarantees: Use() returns a live topic; a refused Ensure() creates and uses nothing. Cost:
// O(shards) for new settings or a new link, O(subscriptions) for LacksDeadLetters(), O(topics that
// dead letters can reach) for CheckNoCycle(), else O(1).
// Thread safety: confined to the catalog's thread.
class LiveTopics {
 public:
  // REQUIRES: the pointers outlive it.
  LiveTopics(const CatalogOptions& options, CatalogState* state, Changes* changes,
             CatalogOutput* output);

  // ---- Commands. REQUIRES, except for Ensure: the topic has no change in progress.

  void Ensure(const EnsureTopic& command);
  void Create(const CreateTopic& command);
  void Update(const UpdateTopic& command);

  // ---- For other changes

  // Finds the live topic of this name. With `create`, creates or revives the topic if necessary.
  // `used`: a message, a recurrence or an operator names the topic, not only a subscriber.
  // `dead_letters`: the topic is for the dead letters of one that exists.
  absl::Status Use(absl::string_view name, bool used, bool create, TopicEntry** entry,
                   bool dead_letters = false);
  // Makes a deleted topic live again, or notes in its running deletion that the topic is in use.
  // Its deletion took the link to its dead-letter topic; if that topic has a number, links it
  // again.
  void Revive(TopicEntry* entry);
  // Returns the error that creating topic `name` and its dead-letter topic would return. A caller
  // that checks first creates neither topic when it refuses. `dead_letters`: the name, empty if it
  // would be too long, or nullopt for none. OK for a live topic.
  absl::Status CheckCreation(absl::string_view name, bool used,
                             const std::optional<std::string>& dead_letters);
  // True if the topic needs a dead-letter topic and has no link to one. A link to a deleted topic
  // is enough: the shards watch that topic, and the first dead letter revives it.
  static bool LacksDeadLetters(const TopicEntry& entry);
  // Sends the number of the topic's dead-letter topic to the shards. `needed`: creates or revives
  // that topic now; otherwise only reserves its name. After the start, only this function links a
  // topic to its dead-letter topic. DEAD_LETTER_CYCLE as in CheckNoCycle.
  absl::Status LinkDeadLetters(TopicEntry* entry, bool needed);
  // Finds the topic of this name, or gives the name a number. A topic without more than that is
  // hidden as a deleted one is, and its first message makes it live. TOPIC_LIMIT.
  absl::Status Reserve(absl::string_view name, TopicEntry** entry);
  // FAILED_PRECONDITION DEAD_LETTER_CYCLE if dead letters of `topic` that go to `dead_letters`
  // could come back to `topic`, through any number of topics. A topic leads to the dead-letter
  // topics of its subscriptions and to its own, named or default: a subscription by use can come at
  // any time.
  absl::Status CheckNoCycle(absl::string_view topic, absl::string_view dead_letters);

 private:
  // Adds a topic by CatalogState::Add. Tells the shards if it takes over a number.
  TopicEntry* Add(absl::string_view name, bool used);
  // Writes the settings and sends them to the shards. `tag` is the request to answer.
  void ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings);
  // TOPIC_LIMIT if there is no room for `need` and the dead-letter topic that the settings name.
  absl::Status CheckRoomFor(const TopicSettings& settings, TopicNeed need);
  // The names of the topics to which dead letters of this topic may go.
  std::vector<std::string> DeadLettersOf(absl::string_view topic);

  const bool auto_create_;
  CatalogState* const state_;
  Changes* const changes_;
  CatalogOutput* const output_;
};

}  // namespace duetime::catalog
