// SPDX-License-Identifier: Apache-2.0
//
// KeyIndex: the keys and request ids that lead to messages.
#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/protocol/commands.h"
#include "storage/locator.h"

namespace duetime::messages {

// Reads and writes the index entries of a shard's messages.
//
// A key leads to the message that has it, or that had it last. A request id leads to the message
// that its first request made. Its entry also holds the answer to that request.
//
// The scope of a request id is the topic and the key, else the ordering key, else the topic alone.
// The key and the ordering key decide the shard, so all requests of a scope meet in one shard,
// however many there are.
//
// KeyIndex does not lock. MessageLocks locks a name while its entry is uncommitted. Thread safety:
// confined to the shard's engine thread.
class KeyIndex {
 public:
  // REQUIRES: all pointers outlive it.
  explicit KeyIndex(const delivery::Core& core);

  // The name of the index entry of a request: its scope and its request id. Equal only for equal
  // scopes and ids. Documented in FORMAT.md. REQUIRES: the options have a request id.
  static std::string RequestName(const protocol::ScheduleOptions& options);

  // Another topic had the number of this one before. Its ids are below `first`. The greatest of all
  // calls holds.
  void SetFirstId(storage::TopicId topic, const storage::MessageId& first);
  // True if the id is of a topic that had the number before.
  bool OfFormerTopic(storage::TopicId topic, const storage::MessageId& id) const;

  // The entry of a name. If there is none, if it has expired, or if it is of a topic that had the
  // number before, returns an entry without an id. An error means that the store cannot be read.
  // REQUIRES: the name is not locked and not empty.
  absl::StatusOr<storage::IndexEntry> Find(base::Now now, storage::TopicId topic,
                                           storage::IndexKind kind, absl::string_view name) const;

  // Makes the key lead to `entry.id`.
  void PutKey(storage::TopicId topic, absl::string_view key, const storage::IndexEntry& entry);

  // Keeps the answer to the request for request_retention_ms. REQUIRES: the options have a request
  // id, and the request was accepted.
  void PutRequest(base::Now now, storage::TopicId topic, const protocol::ScheduleOptions& options,
                  const protocol::AcceptedMessage& answer);

 private:
  const delivery::Core& core_;
  const uint64_t request_retention_ms_;
  // Of topics that took a number over. Clocks do not decide whether an entry is of the topic.
  absl::flat_hash_map<storage::TopicId, storage::MessageId> first_ids_;
};

}  // namespace duetime::messages
