// SPDX-License-Identifier: Apache-2.0
//
// BacklogQuery: counts what subscriptions have still to settle, from the store's counters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "storage/message_store.h"

namespace duetime::query {

// The due messages that a subscription has not settled, in memory and on disk, over all shards.
struct Backlog {
  uint64_t messages = 0;
  // The due time of the oldest one; 0 if there is none.
  uint64_t oldest_ms = 0;

  friend bool operator==(const Backlog&, const Backlog&) = default;
};

// Limits for the reads of one query, beyond which its numbers are less exact. Both count messages
// of all topics that are due in one minute, in each shard.
struct BacklogBudget {
  // Those of the current minute that are counted one by one.
  size_t counted = 20'000;
  // Those of the oldest minute that are passed on the way to the oldest message.
  size_t searched = 20'000;
  // The messages of that minute whose progress is read.
  size_t progress = 200;
};

// Appends to `backlogs` one for each of `subscriptions`, all of `topic`.
//
// A counter is of a minute: a topic's due messages, less those that the subscription is done with.
// Exact, except that
//  - in the minute that has not ended, messages beyond the budget are not counted yet;
//  - oldest_ms is the start of its minute if the budget does not lead to the message;
//  - the two counters are read a moment apart, so a message that ends meanwhile may count;
//  - of a topic's subscriptions that get no older message, all but 16 count older ones, too;
//  - after damage of counters, `messages` is too high by those that they counted as done, until
//    these messages end.
//
// Cost: O(minutes with due messages), for each subscription that is done with some; and the budget.
// An error: the store cannot be used.
absl::Status ReadBacklogs(storage::MessageStore* store, storage::TopicId topic,
                          std::span<const storage::SubscriptionId> subscriptions, uint64_t now_ms,
                          const BacklogBudget& budget, std::vector<Backlog>* backlogs);

}  // namespace duetime::query
