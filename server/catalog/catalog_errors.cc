// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_errors.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"

namespace duetime::catalog {
namespace {

using base::MakeError;

absl::Status LimitError(absl::string_view what, absl::string_view reason, size_t limit) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("too many ", what, ", limit ", limit),
                   {.reason = std::string(reason),
                    .field = "",
                    .metadata = {{"limit", absl::StrCat(limit)}},
                    .retry_after_ms = 0});
}

}  // namespace

absl::Status TopicNotFoundError(absl::string_view topic) {
  return MakeError(absl::StatusCode::kNotFound, absl::StrCat("there is no topic ", topic),
                   {.reason = "TOPIC_NOT_FOUND",
                    .field = "",
                    .metadata = {{"topic", std::string(topic)}},
                    .retry_after_ms = 0});
}

absl::Status TopicExistsError(absl::string_view topic) {
  return MakeError(absl::StatusCode::kAlreadyExists,
                   absl::StrCat("topic ", topic, " exists with other settings"),
                   {.reason = "TOPIC_EXISTS",
                    .field = "topic.name",
                    .metadata = {{"topic", std::string(topic)}},
                    .retry_after_ms = 0});
}

absl::Status CheckTopicRoom(size_t topics_max, size_t counted, size_t names,
                            const TopicNeed& need) {
  // There may be more than the limit, because a new run can have a lower one.
  if (need.topics > 0 && counted + need.topics > topics_max) {
    return LimitError("topics", "TOPIC_LIMIT", topics_max);
  }
  const size_t names_max = (need.names > need.reserved ? 2 : 3) * topics_max;
  if (need.names > 0 && names + need.names > names_max) {
    const size_t deleted = names - std::min(names, counted);
    const size_t limit = names_max - std::min(names_max, counted);
    return MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat(
            "too many names of deleted topics, which the server keeps for their retention: ",
            deleted, ", limit ", limit,
            "; wait, use one of these names again, or raise topics_max"),
        {.reason = "TOPIC_LIMIT",
         .field = "",
         .metadata = {{"limit", absl::StrCat(limit)}, {"deleted", absl::StrCat(deleted)}},
         .retry_after_ms = 0});
  }
  return absl::OkStatus();
}

absl::Status ListenedTopicLimitError(size_t limit) {
  return LimitError("topics that only subscribers name", "TOPIC_LIMIT", limit);
}

absl::Status TopicNotEmptyError(absl::string_view topic, uint64_t messages) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("topic ", topic, " is not empty, pending messages: ", messages),
      {.reason = "TOPIC_NOT_EMPTY",
       .field = "",
       .metadata = {{"topic", std::string(topic)}, {"messages", absl::StrCat(messages)}},
       .retry_after_ms = 0});
}

absl::Status TopicUsedError(absl::string_view topic) {
  return MakeError(absl::StatusCode::kAborted,
                   absl::StrCat("topic ", topic, " came into use during its deletion"),
                   {.reason = "TOPIC_USED",
                    .field = "",
                    .metadata = {{"topic", std::string(topic)}},
                    .retry_after_ms = 0});
}

absl::Status TopicRecursError(absl::string_view topic, uint64_t recurrences) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("topic ", topic, " has recurrences that make messages: ", recurrences,
                   "; delete them first"),
      {.reason = "TOPIC_NOT_EMPTY",
       .field = "",
       .metadata = {{"topic", std::string(topic)}, {"recurrences", absl::StrCat(recurrences)}},
       .retry_after_ms = 0});
}

absl::Status NoDeadLetterTopicError(absl::string_view topic) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the name of topic ", topic,
                                " is too long for a dead-letter topic to be named after it: "
                                "set one"),
                   {.reason = "NO_DEAD_LETTER_TOPIC",
                    .field = "",
                    .metadata = {{"topic", std::string(topic)}},
                    .retry_after_ms = 0});
}

absl::Status DeadLetterCycleError(absl::string_view topic, absl::string_view dead_letters,
                                  const std::vector<std::string>& path) {
  // A text and its metadata must fit into the headers of an answer.
  constexpr size_t kNamesMax = 8;
  std::string cycle(topic);
  for (size_t i = 0; i < path.size(); ++i) {
    if (i < kNamesMax || i + 1 == path.size()) {
      absl::StrAppend(&cycle, " > ", path[i]);
    } else if (i == kNamesMax) {
      absl::StrAppend(&cycle, " > ...");
    }
  }
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("dead letters would come back to their topic: ", cycle),
                   {.reason = "DEAD_LETTER_CYCLE",
                    .field = "",
                    .metadata = {{"topic", std::string(topic)},
                                 {"dead_letter_topic", std::string(dead_letters)},
                                 {"cycle", cycle}},
                    .retry_after_ms = 0});
}

absl::Status SubscriptionNotFoundError(absl::string_view topic, absl::string_view name) {
  return MakeError(
      absl::StatusCode::kNotFound, absl::StrCat("topic ", topic, " has no subscription ", name),
      {.reason = "SUBSCRIPTION_NOT_FOUND",
       .field = "",
       .metadata = {{"topic", std::string(topic)}, {"subscription", std::string(name)}},
       .retry_after_ms = 0});
}

absl::Status SubscriptionExistsError(absl::string_view topic, absl::string_view name) {
  return MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("topic ", topic, " has a subscription ", name, " with other settings"),
      {.reason = "SUBSCRIPTION_EXISTS",
       .field = "subscription.name",
       .metadata = {{"topic", std::string(topic)}, {"subscription", std::string(name)}},
       .retry_after_ms = 0});
}

absl::Status SubscriptionLimitError(size_t limit) {
  return LimitError("subscriptions of a topic", "SUBSCRIPTION_LIMIT", limit);
}

}  // namespace duetime::catalog
