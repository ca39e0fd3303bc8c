// SPDX-License-Identifier: Apache-2.0
//
// MinuteLimits: how many messages of a topic may become due in one minute.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/commands.h"
#include "server/scheduler/message_writer.h"
#include "storage/types.h"

namespace duetime::delivery {

// Finds the minute of a message whose topic has a limit.
//
// Each shard has an equal share of the limit, rounded up: the slots of messages are spread evenly,
// and so no shard has to ask another. Within a shard the count is exact. Thread safety: confined to
// the shard's engine thread.
class MinuteLimits {
 public:
  // A message that wants to be due at `deliver_ms`.
  struct Wish {
    uint64_t deliver_ms = 0;
    // When it is due now, as one that is pending; 0: it is new. Where it is it needs no room.
    uint64_t present_ms = 0;
    // kSpread moves it no later than this.
    uint64_t latest_ms = std::numeric_limits<uint64_t>::max();
  };
  struct Place {
    uint64_t deliver_ms = 0;
    // The minute holds, or would hold, more than it should.
    bool over = false;
  };

  // REQUIRES: `writer` outlives it.
  MinuteLimits(uint16_t shard_count, scheduler::MessageWriter* writer)
      : shard_count_(shard_count), writer_(writer) {}

  void Set(const TopicCommand& command);

  bool Has(storage::TopicId topic) const { return !limits_.empty() && limits_.contains(topic); }

  // Where the message may be. The wish itself if the topic has no limit, or the time has come.
  // RESOURCE_EXHAUSTED BUCKET_FULL; UNAVAILABLE STORAGE_FAILED if the store cannot be read, and
  // then the shard's next batch fails, too.
  absl::Status Find(base::Now now, storage::TopicId topic, const Wish& wish, Place* place) const;

  // Whether the minute in which a pending message is due holds more than it should. Only with
  // kWarn. False if it cannot be read.
  bool Over(base::Now now, storage::TopicId topic, uint64_t due_ms) const;

 private:
  struct Limit {
    // Of the topic, and of this shard.
    uint64_t messages = 0;
    int64_t share = 0;
    BucketPolicy policy{};
    uint64_t spread_ms = 0;
  };

  absl::Status Spread(storage::TopicId topic, const Limit& limit, const Wish& wish,
                      Place* place) const;

  const uint16_t shard_count_;
  scheduler::MessageWriter* const writer_;
  absl::flat_hash_map<storage::TopicId, Limit> limits_;
};

}  // namespace duetime::delivery
