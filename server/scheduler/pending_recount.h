// SPDX-License-Identifier: Apache-2.0
//
// PendingRecount: counts the pending messages of topics whose counters are damaged.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"

#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::scheduler {

// Walks over the messages of the shard, in slices beside other work. One walk counts all topics
// that wait when it begins.
//
// A decision about a message behind the walk changes the count at once. The store may or may not
// have a decision about a message ahead of the walk when the walk comes to it. So the decision is
// kept until its batch is complete, and replaces what the walk sees.
//
// Cost: one read for each message of the shard; memory for the uncommitted decisions. Thread
// safety: confined to the shard's engine thread.
class PendingRecount {
 public:
  // A topic and its pending messages, with uncommitted decisions.
  using Counted = std::pair<storage::TopicId, int64_t>;

  // `slice`: what one step reads. REQUIRES: `store` and `writes` outlive it.
  PendingRecount(uint16_t shard, storage::MessageStore* store, const PendingWrites* writes,
                 const storage::ScanLimit& slice = {.entries = 2000, .bytes = 1 << 20})
      : shard_(shard), store_(store), writes_(writes), slice_(slice) {}

  // REQUIRES: no decision about a message of the topic is uncommitted.
  void Begin(storage::TopicId topic) { topics_.try_emplace(topic); }
  bool Has(storage::TopicId topic) const { return topics_.contains(topic); }
  bool empty() const { return topics_.empty(); }

  // Notes a decision: the message is put at `key`, or erased. No effect on other topics.
  void Note(storage::TopicId topic, const storage::MessageKey& key, bool put);

  // Walks on by a slice, as a rule of a millisecond, and adds the topics that are counted to
  // `counted`. An error means that the store cannot be read. REQUIRES: not empty().
  absl::Status Step(std::vector<Counted>* counted);

 private:
  struct Decision {
    bool put = false;
    uint64_t batch = 0;
  };
  struct Topic {
    // The walk counts it.
    bool joined = false;
    // Messages behind the walk.
    int64_t found = 0;
    // Decisions about messages ahead of it.
    absl::btree_map<storage::MessageKey, Decision> ahead;
  };

  const uint16_t shard_;
  storage::MessageStore* const store_;
  const PendingWrites* const writes_;
  const storage::ScanLimit slice_;
  absl::btree_map<storage::TopicId, Topic> topics_;
  // The place of the walk.
  storage::MessageKey cursor_;
};

}  // namespace duetime::scheduler
