// SPDX-License-Identifier: Apache-2.0
//
// MinuteCounts: counts the messages of some topics by the minute in which they become due.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"
#include "storage/time_units.h"
#include "storage/types.h"

namespace duetime::scheduler {

constexpr uint64_t MinuteOf(uint64_t time_ms) { return time_ms - time_ms % storage::kMinuteMs; }

// Counts the pending messages of selected topics by minute, in this shard, with uncommitted
// decisions.
//
// The store's counters may or may not include a batch in flight. A minute is therefore read from
// the store while no batch in flight changes it, and is kept as long as one does. When there are
// many minutes, idle ones are forgotten, and read again when needed.
//
// Guarantee: every count is exact. Cost: a look-up in a tree for each message of these topics; a
// read for a minute that is new or was forgotten. Memory: about 16,000 minutes, and those that
// batches in flight change. Thread safety: confined to the shard's engine thread.
class MinuteCounts {
 public:
  // REQUIRES: `store` and `writes` outlive it.
  MinuteCounts(uint16_t shard, storage::MessageStore* store, const PendingWrites* writes)
      : shard_(shard), store_(store), writes_(writes) {}

  bool empty() const { return topics_.empty(); }
  bool Has(storage::TopicId topic) const { return topics_.contains(topic); }

  // Counts the topic from now on. REQUIRES: no batch is in flight; the caller adds the topic's
  // messages of the open batch next.
  void Begin(storage::TopicId topic) { topics_.insert(topic); }
  void End(storage::TopicId topic);

  // Counts the messages that the open batch adds to the minute (negative: removes). Does nothing if
  // the topic is not counted.
  void Add(storage::TopicId topic, uint64_t minute_ms, int64_t messages);

  // The number of messages in the minute; read from the store if the topic is not counted. An error
  // means that the store cannot be read.
  absl::StatusOr<int64_t> At(storage::TopicId topic, uint64_t minute_ms);

  // The first minute with from_ms <= minute < until_ms that has fewer than `max` messages, or
  // nothing. Cost: a few nanoseconds for each full minute if the topic is counted.
  absl::StatusOr<std::optional<uint64_t>> FirstBelow(storage::TopicId topic, int64_t max,
                                                     uint64_t from_ms, uint64_t until_ms);

  // Not OK once a minute could not be read: the counts are unreliable.
  const absl::Status& read_status() const { return read_status_; }

  // For tests.
  size_t size() const { return minutes_.size(); }

 private:
  using Place = std::pair<storage::TopicId, uint64_t>;
  struct Minute {
    int64_t messages = 0;
    // The last batch that changes it; 0: no batch since it was read.
    uint64_t batch = 0;
  };

  // Reads `count` minutes from the store. Known minutes stay as they are.
  absl::Status Load(storage::TopicId topic, uint64_t minute_ms, size_t count);
  void Forget();

  const uint16_t shard_;
  storage::MessageStore* const store_;
  const PendingWrites* const writes_;
  absl::flat_hash_set<storage::TopicId> topics_;
  absl::btree_map<Place, Minute> minutes_;
  size_t forget_at_ = 0;
  absl::Status read_status_;
};

}  // namespace duetime::scheduler
