// SPDX-License-Identifier: Apache-2.0
//
// MinuteLimits: limits the number of a topic's messages that become due in one minute.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/scheduler/message_writer.h"
#include "storage/types.h"

namespace duetime::messages {

// Finds a minute for a message whose topic has a limit.
//
// Each shard has an equal share of the limit, rounded up, because the slots of messages are spread
// evenly (api::ScheduleRouter). So no shard has to ask another one. Within a shard the count is
// exact.
//
// Cost: a look-up for each message of a topic with a limit; SPREAD also walks over full minutes.
// Thread safety: confined to the shard's engine thread.
class MinuteLimits {
 public:
  // A message that a client wants to be due at `deliver_ms`.
  struct Request {
    uint64_t deliver_ms = 0;
    // The present due time of a pending message, which needs no room in its own minute. 0: the
    // message is new.
    uint64_t present_ms = 0;
    // The message keeps its time, and needs no room there, even if it is due in another minute
    // because the clock was set back since it was accepted.
    bool keeps_time = false;
    // SPREAD does not move the message past this.
    uint64_t latest_ms = std::numeric_limits<uint64_t>::max();
  };
  struct Placement {
    uint64_t deliver_ms = 0;
    // With WARN: the minute is over its limit with this message.
    bool over = false;
  };

  // REQUIRES: `writer` outlives it.
  MinuteLimits(uint16_t shard_count, scheduler::MessageWriter* writer)
      : shard_count_(shard_count), writer_(writer) {}

  void Set(const protocol::TopicCommand& command);

  bool Has(storage::TopicId topic) const { return !limits_.empty() && limits_.contains(topic); }

  // Finds the time at which the message is due. That is the time of the request if the topic has no
  // limit, or if the message is due now. RESOURCE_EXHAUSTED MINUTE_FULL. If the store cannot be
  // read, returns STORAGE_FAILED, and the shard's next batch fails too.
  absl::Status Place(base::Now now, storage::TopicId topic, const Request& request,
                     Placement* placement) const;

  // With WARN: true if the minute of a pending message is over its limit. False if the store
  // cannot be read.
  bool Over(base::Now now, storage::TopicId topic, uint64_t due_ms) const;

 private:
  struct Limit {
    // The limit of the topic, and the share of this shard.
    uint64_t messages = 0;
    int64_t share = 0;
    protocol::TopicSettings::BucketPolicy policy{};
    uint64_t spread_ms = 0;
  };

  absl::Status Spread(storage::TopicId topic, const Limit& limit, const Request& request,
                      Placement* placement) const;

  const uint16_t shard_count_;
  scheduler::MessageWriter* const writer_;
  absl::flat_hash_map<storage::TopicId, Limit> limits_;
};

}  // namespace duetime::messages
