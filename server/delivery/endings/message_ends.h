// SPDX-License-Identifier: Apache-2.0
//
// MessageEnds: settles messages for their subscriptions, and ends them.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/endings/endings.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/store_reader.h"
#include "storage/message_record.h"

namespace duetime::delivery {

// The end of a message for all its subscriptions.
struct MessageEnd {
  storage::MessageKey key;
  // The decoded record. Its payload need not be there.
  const storage::MessageRecord* record = nullptr;
  uint32_t payload_bytes = 0;
  // Of the encoded record.
  uint32_t bytes = 0;
  // As MessageStatus returned it. REQUIRES: nothing was committed since.
  const DeliveryStatus* status = nullptr;
  storage::EndState how{};
  bool redelivery_stopped = false;
  storage::Durability durability = storage::Durability::kSynced;
};

// A subscription that settles a message writes a progress record. Only the last one ends the
// message: one batch erases the message and its progress records and writes the tombstone. With one
// subscription a settlement writes no progress record.
//
// An end has two phases. A Begin call adds the records to the open batch and makes the entries
// ending. The caller calls Finish when the batch is committed, and Finish removes the entries.
//
// Guarantees: (1) a message ends once; (2) a message is not erased while a subscription that it is
// for has not settled it, unless a client cancels or moves it. Cost: O(subscriptions of the topic);
// BeginSettle reads once if the topic has or had several. Thread safety: confined to the engine
// thread.
class MessageEnds {
 public:
  explicit MessageEnds(const Core& core);

  // ---- For one subscription
  //
  // Settles the entry, which ends the message if its subscription is the last one. `dead_letter`:
  // what the subscription made of it, if anything. After the commit the caller calls Finish, or
  // DeliveryStates::Remove. REQUIRES: the entry's record was learned.
  void BeginSettle(base::Now now, EntryIndex index, storage::EndState how,
                   storage::Durability durability, storage::MessageId dead_letter = {});
  // Removes the entry and returns its credit. REQUIRES: the entry is in no list.
  void Finish(EntryIndex index);
  // Drops the message for the entry's subscription: BeginSettle, and Finish after the commit.
  // REQUIRES: the entry's record was learned.
  void Drop(base::Now now, EntryIndex index);
  // Removes an entry whose message is gone.
  void DropStale(EntryIndex index);

  // ---- For all subscriptions
  //
  // Takes the message from all subscriptions and ends it. The caller calls FinishAll after the
  // commit.
  absl::Status BeginEnd(base::Now now, const MessageEnd& end);
  // Takes the message from all subscriptions, because it moves to another key. The caller calls
  // FinishAll after the commit. `rows`: as for BeginEnd (DeliveryStatus::rows).
  void BeginMove(const storage::MessageKey& key, const Topic& topic, const ProgressRows& rows);
  void FinishAll(const storage::MessageKey& key);

  // True if an end of the message, for one subscription or for all, is not committed yet.
  bool AnyEnding(const storage::MessageId& id) const;
  // True if settlements of the message at `key` are not committed yet, and none of them ends it.
  bool OnlySettling(const storage::MessageKey& key) const;
  // True if the end of the message at `key` is not committed yet.
  bool MessageEnding(const storage::MessageKey& key) const;

 private:
  // The message's progress records if every other subscription has settled it, else nothing. Empty
  // for a topic with one subscription.
  std::optional<ProgressRows> RowsIfLast(const storage::MessageKey& key,
                                         const Subscription& subscription);
  void SettleForOne(EntryIndex index, storage::EndState how, storage::MessageId dead_letter);
  void EndByLast(EntryIndex index, const ProgressRows& rows, storage::Tombstone tombstone,
                 storage::Durability durability);
  // Names the dead letters that the message's subscriptions have made of it: in `rows`, and in
  // records that are not committed yet.
  void NameDeadLetters(const storage::MessageKey& key, const ProgressRows& rows,
                       storage::Tombstone* tombstone) const;
  // Removes the progress records in the store, and those that are not committed yet.
  void RemoveProgress(const storage::MessageKey& key, const ProgressRows& rows);
  // Removes the listing of a message that the subscription does not have in memory.
  void UnlistUnseen(const storage::MessageKey& key, Subscription* subscription,
                    const storage::Progress* row);

  const Core& core_;
  Endings endings_;
  // Of one call of RemoveProgress.
  std::vector<std::pair<storage::SubscriptionId, storage::Progress::State>> states_;
};

}  // namespace duetime::delivery
