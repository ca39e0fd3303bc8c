// SPDX-License-Identifier: Apache-2.0
//
// Changes: the change in progress of each topic, and the commands that wait for its end.
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

// The steps of a change.
enum class Step : uint8_t {
  // The change waits for the commit of its record.
  kWriting,
  // The shards apply the settings. Their replies end the change.
  kTelling,
  // Deletion: the shards watch the topic and count its messages.
  kCounting,
  // Deletion: the topic was used before the record was committed. The shards stop watching it.
  kReverting,
  // Deletion: the topic is hidden. The shards forget its settings.
  kHiding,
  // Deletion: the shards delete one of the topic's subscriptions.
  kForgetting,
  // The shards create, update or delete one subscription.
  kSubscribing,
};

// The change in progress of a topic.
struct Change {
  RequestTag tag{};
  Step step = Step::kWriting;
  bool deletes_topic = false;
  // A shard or a client used the topic since its deletion began.
  bool used = false;
  // True if the change continues one of the previous run.
  bool resumed = false;
  // The subscription that the change creates, updates or deletes now. Empty: none.
  std::string subscription;
  // The number of shards that have not replied, and the sums of the replies.
  size_t open = 0;
  uint64_t messages = 0;
  uint64_t recurrences = 0;
  // Deletion: the ids that the shards have given are below this.
  storage::MessageId next_id{};
};

// Holds at most one change per topic, and the commands that wait for its end, in order. Cost: O(1)
// per call. Thread safety: confined to one thread.
class Changes {
 public:
  // Begins a change. The pointer is valid until End. REQUIRES: the topic has no change in progress.
  Change* Begin(storage::TopicId topic, RequestTag tag);
  // Null if the topic has no change in progress.
  Change* Find(storage::TopicId topic);
  // Ends the topic's change and returns it. REQUIRES: there is one.
  Change End(storage::TopicId topic);

  // Queues a command. REQUIRES: the topic has a change in progress.
  void Wait(storage::TopicId topic, Command command);
  // Removes and returns the next waiting command; nullopt if there is none, or if the topic has a
  // change in progress.
  std::optional<Command> Next(storage::TopicId topic);
  // Drops all waiting commands.
  void DropWaiting() { waiting_.clear(); }

  // For tests; O(topics with changes).
  void CheckInvariants() const;

 private:
  absl::flat_hash_map<storage::TopicId, std::unique_ptr<Change>> changes_;
  absl::flat_hash_map<storage::TopicId, std::deque<Command>> waiting_;
};

}  // namespace duetime::catalog
