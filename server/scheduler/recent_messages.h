// SPDX-License-Identifier: Apache-2.0
//
// RecentMessages: what the end of a young message needs, in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/types.h"

namespace duetime::scheduler {

// Facts about the messages that a shard accepted last, so that a cancel of one reads nothing.
//
// An entry says that the message is in the store, at the place in its id, as it was accepted. Ids
// of a run count up, so the entries are a ring: a new one takes the place of the oldest. Messages
// with a user key, occurrences and dead letters are not kept: more belongs to their ends.
//
// Cost: O(1); 40 bytes for each place that was used. Thread safety: confined to the engine thread.
class RecentMessages {
 public:
  struct Entry {
    storage::MessageId id;
    uint64_t accept_ms = 0;
    storage::TopicId topic{};
    // Of the payload, and of the record in the store.
    uint32_t payload_bytes = 0;
    uint32_t record_bytes = 0;
  };

  // Keeps the last `max` messages. 0: none.
  explicit RecentMessages(size_t max) : max_(max) {}

  // REQUIRES: the message is in the store as above; its id is of this run.
  void Add(const Entry& entry);
  // The message ends or moves.
  void Forget(const storage::MessageId& id);
  // nullptr if the message is not kept. The entry is valid until the next call of another method.
  const Entry* Find(const storage::MessageId& id) const;

  size_t bytes() const { return ring_.size() * sizeof(Entry); }

 private:
  size_t PlaceOf(const storage::MessageId& id) const { return (id.sequence() - first_) % max_; }

  const size_t max_;
  // The sequence of the first entry, which is a random number.
  uint64_t first_ = 0;
  std::vector<Entry> ring_;
};
static_assert(sizeof(RecentMessages::Entry) == 40);

}  // namespace duetime::scheduler
