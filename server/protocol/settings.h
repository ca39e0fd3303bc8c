// SPDX-License-Identifier: Apache-2.0
//
// The settings of topics and subscriptions. Their messages are also their records (settings.proto).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

#include "server/protocol/settings.pb.h"
#include "storage/types.h"

namespace duetime::internal {

// Compares the bytes, which are those of the fields, because no message here has a map, and of
// fields that a later program wrote.
template <std::derived_from<google::protobuf::MessageLite> Message>
bool operator==(const Message& a, const Message& b) {
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace duetime::internal

namespace duetime::protocol {

using internal::RetryPolicy;
using internal::SubscriptionSettings;
using internal::TopicSettings;
// The shards and the catalog share one object, which does not change. Not null.
using TopicSettingsPtr = std::shared_ptr<const TopicSettings>;

// ---- Defaults

const TopicSettingsPtr& DefaultTopicSettings();
const SubscriptionSettings& DefaultSubscriptionSettings();
// The first delay of a retry if none is given: the default, or the longest delay if that is less.
uint64_t DefaultMinBackoffMs(uint64_t max_backoff_ms);

// ---- Settings that were read from disk. DATA_LOSS if a number is no enumerator.

absl::Status CheckStored(const TopicSettings& settings);
// Also gives the fields that are absent in older records their present defaults.
absl::Status CompleteStored(SubscriptionSettings* settings);

// ---- What the settings of a subscription say

// The number of the dead-letter topic that the subscription names. 0: it names none.
inline storage::TopicId DeadLetterOf(const SubscriptionSettings& settings) {
  return storage::TopicId{settings.dead_letter()};
}

// True if the subscription bounds its messages by age, by number, or at all.
bool BoundsAge(const SubscriptionSettings& settings);
bool BoundsNumber(const SubscriptionSettings& settings);
bool Retains(const SubscriptionSettings& settings);
// True if a message with this due time has waited for too long.
bool TooOld(const SubscriptionSettings& settings, uint64_t due_ms, uint64_t now_ms);
// True if one of so many shards has too many messages that wait.
bool TooMany(const SubscriptionSettings& settings, uint64_t waiting, uint64_t shards);
// True if messages may become dead letters.
bool MakesDeadLetters(const SubscriptionSettings& settings);

}  // namespace duetime::protocol
