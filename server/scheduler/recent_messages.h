// SPDX-License-Identifier: Apache-2.0
//
// RecentMessages: what the end of a young message needs, in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "storage/types.h"

namespace duetime::scheduler {

// Facts about the messages that a shard accepted last, so that a cancel of one reads nothing.
//
// Find returns a message only if it is in the store, at the place in its id, as it was accepted.
// Ids of a run count up, so the entries are a ring: a new one takes the place of the oldest.
// Messages with a user key, occurrences and dead letters are not kept, because their ends need
// more.
//
// An entry is added with the decision to accept, and found after the commit. It is added so early
// because whoever reads the store may see the message before the engine hears of the commit, and
// may decide to end it: Forget must then find the entry.
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
    bool stored = false;
  };

  // Keeps the last `max` messages. 0: none.
  explicit RecentMessages(size_t max) : max_(max) {}

  // REQUIRES: the id is the next of this run, and `stored` is false.
  void Add(const Entry& entry);
  // The message is in the store. Does nothing if it was forgotten.
  void MarkStored(const storage::MessageId& id);
  // The decision is made to end or to move the message.
  void Forget(const storage::MessageId& id);
  // nullptr if the message is not kept, or not stored yet. The entry is valid until the next call
  // of another method.
  const Entry* Find(const storage::MessageId& id) const;

  size_t bytes() const { return used_ * sizeof(Entry); }

 private:
  struct Free {
    void operator()(Entry* ring) const { std::free(ring); }
  };

  size_t PlaceOf(const storage::MessageId& id) const { return (id.sequence() - first_) % max_; }
  // The entry of the message, stored or not.
  Entry* At(const storage::MessageId& id) const;

  const size_t max_;
  // The sequence of the first entry, which is a random number.
  uint64_t first_ = 0;
  // Null before the first entry. Pages that are not used take no memory.
  std::unique_ptr<Entry[], Free> ring_;
  // The places up to the last one that was used.
  size_t used_ = 0;
};
static_assert(sizeof(RecentMessages::Entry) == 40);

}  // namespace duetime::scheduler
