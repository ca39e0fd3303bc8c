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

// Limits for the reads of one query, beyond which its numbers are less exact.
struct BacklogBudget {
  // The messages of the current minute that are counted one by one, in each shard.
  size_t counted = 20'000;
  // The messages of the oldest minute whose progress is read, in each shard.
  size_t searched = 200;
};

// Appends to `backlogs` one for each of `subscriptions`, all of `topic`.
//
// A counter is of a minute: a topic's due messages, less those that the subscription is done with.
// Exact, except that
//  - in the minute that has not ended, messages beyond the budget are not counted yet;
//  - oldest_ms is the start of its minute if that minute has more settled or older messages than
//    the budget;
//  - after damage of counters, `messages` is too high by those that they counted as done, until
//    these messages end.
// A backlog that has been settled is 0 in each case, but the last.
//
// Cost: O(minutes with due messages), and the budget. An error: the store cannot be used.
absl::Status ReadBacklogs(storage::MessageStore* store, storage::TopicId topic,
                          std::span<const storage::SubscriptionId> subscriptions, uint64_t now_ms,
                          const BacklogBudget& budget, std::vector<Backlog>* backlogs);

}  // namespace duetime::query
