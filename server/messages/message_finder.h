// SPDX-License-Identifier: Apache-2.0
//
// MessageFinder: finds a message, and its delivery status.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/endings/message_status.h"
#include "server/messages/key_index.h"
#include "server/messages/message_locks.h"
#include "server/protocol/commands.h"
#include "server/scheduler/recent_messages.h"
#include "storage/message_record.h"

namespace duetime::messages {

// The message with an id, as it is in the store or, after FindMoved, in the open batch.
struct FoundMessage {
  // kUnknown: the id was never given, or the message ended and its tombstone has expired, or its
  // topic's number belongs to another topic now.
  enum class Kind : uint8_t { kUnknown, kPending, kEnded };

  FoundMessage() = default;
  FoundMessage(const FoundMessage&) = delete;
  FoundMessage& operator=(const FoundMessage&) = delete;

  Kind kind = Kind::kUnknown;
  // With kEnded.
  storage::Tombstone tombstone;
  // With kPending: the message is as the open batch leaves it, and not as it is in the store.
  bool uncommitted = false;
  // With kPending: its place, the bytes of its record, and the decoded header in `record`.
  storage::MessageKey key;
  std::string bytes;
  // With kPending, after Examine: the whole decoded record, whose views point into `bytes`, and the
  // delivery status.
  storage::MessageRecord record;
  delivery::DeliveryStatus delivery;
  // Set if the message was found in RecentMessages: it has no `bytes` then, and `record` has its
  // times and topic alone, which is all that its end needs.
  std::optional<scheduler::RecentMessages::Entry> recent;

  uint32_t payload_bytes() const {
    return recent.has_value() ? recent->payload_bytes
                              : static_cast<uint32_t>(record.payload.size());
  }
  uint32_t record_bytes() const {
    return recent.has_value() ? recent->record_bytes : static_cast<uint32_t>(bytes.size());
  }
};

// A target resolved to an id.
struct ResolvedTarget {
  // Empty if the key leads to no message.
  storage::MessageId id;
  // Set if a change of the key or of the message is in flight: the command must wait for that
  // change, and `id` has no meaning.
  std::optional<MessageLocks::Name> wait_for;
};

// Finds messages by id or by key, and reads their delivery status.
//
// A message lies at the place in its id, or at the place in its locator. The locator of an ended
// message holds its tombstone. Memory, backlog and progress records together show each delivery of
// this run (P3). The claims show which messages an earlier run may have handed out.
//
// Errors: if the store cannot be read, each call returns STORAGE_FAILED and the shard fails at its
// next step. Thread safety: confined to the shard's engine thread.
class MessageFinder {
 public:
  // REQUIRES: all pointers outlive it.
  MessageFinder(const delivery::Core& core, delivery::MessageStatus* status,
                const MessageLocks* locks, const KeyIndex* index);

  // Resolves a target to an id, or to the name that its command must wait for. OVERLOADED if
  // waiting_max commands wait already.
  absl::StatusOr<ResolvedTarget> Resolve(base::Now now, const protocol::Target& target);

  // The index entry of a key or a request id, as KeyIndex::Find.
  absl::StatusOr<storage::IndexEntry> FindName(base::Now now, storage::TopicId topic,
                                               storage::IndexKind kind, absl::string_view name);

  // Sets kind; with kEnded also tombstone, with kPending also key, bytes and the header. DATA_LOSS
  // if the record is damaged. REQUIRES: `found` is new; no change of the message is in flight.
  absl::Status Find(base::Now now, const storage::MessageId& id, FoundMessage* found);

  // As Find, for a client's command: a message outside of the target's scope is unknown. REQUIRES:
  // the target was resolved to `id`.
  absl::Status FindFor(base::Now now, const protocol::Target& target, const storage::MessageId& id,
                       FoundMessage* found);

  // As FindFor, for the end of the message: may set `recent`.
  absl::Status FindToEnd(base::Now now, const protocol::Target& target,
                         const storage::MessageId& id, FoundMessage* found);

  // Sets kind, key, bytes and the header to what the move leaves. REQUIRES: `found` is new; the
  // move is of the open batch.
  void FindMoved(const MessageLocks::Move& move, FoundMessage* found) const;

  // Sets record and delivery. DATA_LOSS if the record is damaged. REQUIRES: the message is pending.
  absl::Status Examine(base::Now now, FoundMessage* found);

  // The delivery status alone. `list`, if not null, gets one entry for each subscription of a
  // message that is due. DATA_LOSS if its progress is damaged. REQUIRES: the message is pending.
  absl::Status DeliveryStatusOf(base::Now now, const FoundMessage& found,
                                delivery::DeliveryStatus* delivery,
                                std::vector<protocol::SubscriptionStatus>* list);

  // The answer to a command whose read failed. Damage is the answer itself, because it concerns one
  // message, of which nothing is decided then. Any other error stops the shard. REQUIRES: `status`
  // is an error; nothing was changed yet.
  absl::Status ReadFailed(const absl::Status& status);
  // Makes the shard fail at its next step, because no decision can be made without the store, or a
  // change is half done. Returns STORAGE_FAILED. REQUIRES: `status` is an error.
  absl::Status StopShard(const absl::Status& status);

 private:
  // Makes a message outside of the target's scope unknown.
  static void HideIfOutOfScope(const protocol::Target& target, FoundMessage* found);
  // Reads the message at `key`. Leaves `found` as it is if there is none.
  absl::Status ReadAt(const storage::MessageKey& key, FoundMessage* found);

  const delivery::Core& core_;
  delivery::MessageStatus* const status_;
  const MessageLocks* const locks_;
  const KeyIndex* const index_;
};

}  // namespace duetime::messages
