// SPDX-License-Identifier: Apache-2.0
//
// LiveTopics: creates, revives and changes topics, and links their dead-letter topics.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_output.h"
#include "server/catalog/catalog_state.h"
#include "server/catalog/changes.h"
#include "server/catalog/commands.h"

namespace duetime::catalog {

// Guarantees: Use() returns a live topic; a refused Ensure() creates and uses nothing. Cost:
// O(shards) for new settings or a new link, O(subscriptions) for LacksDeadLetters(), else O(1).
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
  absl::Status Use(absl::string_view name, bool used, bool create, TopicEntry** entry);
  // Makes a deleted topic live again, or notes in its running deletion that the topic is in use.
  void Revive(TopicEntry* entry);
  // Returns the error that creating topic `name` and its dead-letter topic would return. A caller
  // that checks first creates neither topic when it refuses. `dead_letters`: the name, empty if it
  // would be too long, or nullopt for none. OK for a live topic.
  absl::Status CheckCreation(absl::string_view name, bool used,
                             const std::optional<std::string>& dead_letters);
  // True if the topic needs a dead-letter topic and has no link to one. A link to a deleted topic
  // is enough: the shards watch that topic, and the first dead letter revives it.
  static bool LacksDeadLetters(const TopicEntry& entry);
  // Creates the dead-letter topic of `entry` if necessary, and sends its number to the shards.
  // After the start, only this function links a topic to its dead-letter topic.
  absl::Status LinkDeadLetters(TopicEntry* entry);

 private:
  // Writes the settings and sends them to the shards. `tag` is the request to answer.
  void ChangeSettings(TopicEntry* entry, RequestTag tag, const TopicSettings& settings);
  // TOPIC_LIMIT if there is no room for `topics` new topics and the dead-letter topic that the
  // settings name.
  absl::Status CheckRoomFor(const TopicSettings& settings, size_t topics) const;

  const bool auto_create_;
  CatalogState* const state_;
  Changes* const changes_;
  CatalogOutput* const output_;
};

}  // namespace duetime::catalog
