// SPDX-License-Identifier: Apache-2.0
//
// The errors of refused commands on topics and subscriptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::catalog {

// NOT_FOUND TOPIC_NOT_FOUND.
absl::Status TopicNotFoundError(absl::string_view topic);
// ALREADY_EXISTS TOPIC_EXISTS.
absl::Status TopicExistsError(absl::string_view topic);
// What a change adds to the tables of topics.
struct TopicNeed {
  // Topics that topics_max counts.
  size_t topics = 0;
  // Names that have no number yet. `reserved`: those of them for the dead letters of topics that
  // exist.
  size_t names = 0;
  size_t reserved = 0;

  TopicNeed& operator+=(const TopicNeed& other) {
    topics += other.topics;
    names += other.names;
    reserved += other.reserved;
    return *this;
  }
};
// RESOURCE_EXHAUSTED TOPIC_LIMIT if `topics_max` leaves no room. `counted`: the topics that it
// counts. `names`: all names that have not ended, with those of deleted topics. There may be twice
// `topics_max` names, so that deleted ones are bounded. Names for dead letters may be as many
// again, so that deleted topics take no room of them.
absl::Status CheckTopicRoom(size_t topics_max, size_t counted, size_t names, const TopicNeed& need);
// RESOURCE_EXHAUSTED TOPIC_LIMIT for a topic that only a subscriber names.
absl::Status ListenedTopicLimitError(size_t limit);
// ABORTED TOPIC_USED: the topic came into use during its deletion.
absl::Status TopicUsedError(absl::string_view topic);

// FAILED_PRECONDITION TOPIC_NOT_EMPTY.
absl::Status TopicNotEmptyError(absl::string_view topic, uint64_t messages);
absl::Status TopicRecursError(absl::string_view topic, uint64_t recurrences);
// FAILED_PRECONDITION NO_DEAD_LETTER_TOPIC.
absl::Status NoDeadLetterTopicError(absl::string_view topic);
// FAILED_PRECONDITION DEAD_LETTER_CYCLE. `path` begins with `dead_letters` and ends with `topic`.
absl::Status DeadLetterCycleError(absl::string_view topic, absl::string_view dead_letters,
                                  const std::vector<std::string>& path);
// NOT_FOUND SUBSCRIPTION_NOT_FOUND.
absl::Status SubscriptionNotFoundError(absl::string_view topic, absl::string_view name);
// ALREADY_EXISTS SUBSCRIPTION_EXISTS.
absl::Status SubscriptionExistsError(absl::string_view topic, absl::string_view name);
// RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT.
absl::Status SubscriptionLimitError(size_t limit);

}  // namespace duetime::catalog
