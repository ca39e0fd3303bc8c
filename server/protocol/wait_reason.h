// SPDX-License-Identifier: Apache-2.0
//
// WaitReason: what keeps a due message from being handed out.
#pragma once

#include <cstdint>

namespace duetime::protocol {

enum class WaitReason : uint8_t {
  // Nothing: the next turn of its subscription hands it out.
  kNone,
  kTopicPaused,
  kSubscriptionPaused,
  // No stream or Pull is open.
  kNoSubscriber,
  // Each stream has used up its credit, or has too much that is not sent yet.
  kNoCredit,
  // The subscription is slowed because too many of its attempts fail.
  kFailures,
  // The ramp after a start of the server.
  kStartup,
  // The rate of the topic.
  kRate,
  // Another message of its ordering key is not settled yet.
  kOrderingKey,
  // It waits for its next attempt.
  kRetry,
  // It is on disk, behind messages that were due before.
  kBacklog,
};

}  // namespace duetime::protocol
