// SPDX-License-Identifier: Apache-2.0
//
// Changes: what is under way in each topic, and the commands that wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

#include "server/catalog/commands.h"

namespace duetime::catalog {

// How far a change has come.
enum class Step : uint8_t {
  // A record waits for its commit.
  kWriting,
  // The shards get the settings. Their replies end the change.
  kTelling,
  // Deletion: the shards watch the topic and count its messages.
  kCounting,
  // Deletion: a message came before the record was written. The shards forget the deletion.
  kReverting,
  // Deletion: the topic is hidden. The shards forget its settings.
  kHiding,
  // Deletion: the shards delete one of the topic's subscriptions.
  kForgetting,
  // The shards create, update or delete one subscription.
  kSubscribing,
};

// The change that is under way in a topic.
struct Change {
  RequestTag tag{};
  Step step = Step::kWriting;
  bool deletes_topic = false;
  // A shard or a client used the topic since its deletion began.
  bool used = false;
  // Continues a change of the run before.
  bool resumed = false;
  // Of which subscription.
  std::string subscription;
  // Shards that have not replied, and the sum of the other replies.
  size_t open = 0;
  uint64_t messages = 0;
  uint64_t recurrences = 0;
};

// One change of a topic or of its subscriptions is under way at a time; commands for the topic wait
// in order. O(1) each. Thread safety: confined to one thread.
class Changes {
 public:
  // The pointer is valid until End. REQUIRES: no change is under way in the topic.
  Change* Begin(storage::TopicId topic, RequestTag tag);
  // Null: none is under way.
  Change* Find(storage::TopicId topic);
  // Ends the topic's change. REQUIRES: there is one.
  Change End(storage::TopicId topic);

  // REQUIRES: a change is under way in the topic.
  void Wait(storage::TopicId topic, Command command);
  // The next command that waits, if no change is under way in the topic.
  std::optional<Command> Next(storage::TopicId topic);
  // Forgets all commands that wait.
  void DropWaiting() { waiting_.clear(); }

  // For tests; O(topics with changes).
  void CheckInvariants() const;

 private:
  absl::flat_hash_map<storage::TopicId, std::unique_ptr<Change>> changes_;
  absl::flat_hash_map<storage::TopicId, std::deque<Command>> waiting_;
};

}  // namespace duetime::catalog
