// SPDX-License-Identifier: Apache-2.0
//
// MessageCreator: accepts a new message.
#pragma once

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/messages/minute_limits.h"
#include "server/protocol/commands.h"
#include "server/scheduler/scheduler.h"

namespace duetime::messages {

// Gives a message its id and its place, within the limits of its topic, and adds its record to the
// open batch. Ignores keys.
//
// Cost: a message without options, in a topic without limits, is not decoded and not copied. Thread
// safety: confined to the shard's engine thread.
class MessageCreator {
 public:
  // REQUIRES: all pointers outlive it.
  MessageCreator(const delivery::Core& core, const MinuteLimits* minute_limits);

  // Creates the message, sets `answer`, and adds the message to `created`, for OnCommitted. With
  // validate_only, only sets `answer`, without an id. Returns
  // RESOURCE_EXHAUSTED TOPIC_FULL or MINUTE_FULL, DATA_LOSS if the record is damaged, or an error
  // of MinuteLimits::Place.
  absl::Status Create(base::Now now, protocol::NewMessage* message,
                      protocol::AcceptedMessage* answer, std::vector<storage::MessageRef>* created);
  // The messages are in the store.
  void OnCommitted(const std::vector<storage::MessageRef>& created);

  // Sets deliver_ms and minute_limit_exceeded of the answer. The time is that of the request, or
  // lies in another minute that has room. Errors as MinuteLimits::Place.
  absl::Status PlaceInMinute(base::Now now, storage::TopicId topic,
                             const MinuteLimits::Request& request,
                             protocol::AcceptedMessage* answer) const;

 private:
  const delivery::Core& core_;
  const MinuteLimits* const minute_limits_;
};

}  // namespace duetime::messages
