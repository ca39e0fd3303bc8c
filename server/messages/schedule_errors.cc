// SPDX-License-Identifier: Apache-2.0
#include "server/messages/schedule_errors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "server/base/error.h"

namespace duetime::messages {

using protocol::ScheduleOptions;
using storage::MessageId;

namespace {

absl::string_view NameOf(protocol::MessageState state) {
  switch (state) {
    case protocol::MessageState::kUnspecified:
      return "STATE_UNSPECIFIED";
    case protocol::MessageState::kScheduled:
      return "STATE_SCHEDULED";
    case protocol::MessageState::kDue:
      return "STATE_DUE";
    case protocol::MessageState::kInFlight:
      return "STATE_IN_FLIGHT";
    case protocol::MessageState::kAcked:
      return "STATE_ACKED";
    case protocol::MessageState::kCancelled:
      return "STATE_CANCELLED";
    case protocol::MessageState::kExpired:
      return "STATE_EXPIRED";
    case protocol::MessageState::kDeadLettered:
      return "STATE_DEAD_LETTERED";
    case protocol::MessageState::kSkipped:
      return "STATE_SKIPPED";
    case protocol::MessageState::kDropped:
      return "STATE_DROPPED";
  }
  return "STATE_UNSPECIFIED";
}

}  // namespace

absl::Status ContentMismatchError(const ScheduleOptions& options, const MessageId& id,
                                  protocol::MessageState state) {
  return base::MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("the key is that of message ", id.ToString(), " (", NameOf(state),
                   "), which has other content; on_conflict says what else to do than refuse"),
      {.reason = "CONTENT_MISMATCH",
       .field = "key",
       .metadata = {{"key", options.key},
                    {"message_id", id.ToString()},
                    {"state", std::string(NameOf(state))}},
       .retry_after_ms = 0});
}

absl::Status RequestReusedError(const ScheduleOptions& options, const MessageId& id) {
  // The scope of the request id, beside the topic.
  const bool keyed = !options.key.empty();
  const std::string& scope = keyed ? options.key : options.ordering_key;
  const std::string field = keyed ? "key" : "ordering_key";
  base::ErrorDetail detail = {
      .reason = "REQUEST_ID_REUSED",
      .field = "request_id",
      .metadata = {{"request_id", options.request_id}, {"message_id", id.ToString()}},
      .retry_after_ms = 0};
  if (!scope.empty()) detail.metadata.emplace_back(field, scope);
  return base::MakeError(
      absl::StatusCode::kAlreadyExists,
      absl::StrCat("the request_id was used before, by a request with other content in the same ",
                   scope.empty() ? "topic" : absl::StrCat("topic and ", field)),
      detail);
}

absl::Status TopicFullError(uint64_t limit) {
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the topic has as many pending messages as it may have: ", limit),
      {.reason = "TOPIC_FULL",
       .field = "topic",
       .metadata = {{"limit", absl::StrCat(limit)}},
       .retry_after_ms = 1'000});
}

absl::Status NothingToChangeError(const ScheduleOptions& options) {
  return base::MakeError(absl::StatusCode::kNotFound,
                         "only_if_exists: there is no message with this key that can be changed",
                         {.reason = "MESSAGE_NOT_FOUND",
                          .field = "key",
                          .metadata = {{"key", options.key}},
                          .retry_after_ms = 0});
}

absl::Status BucketFullError(uint64_t minute_ms, uint64_t limit) {
  const std::string minute =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixMillis(static_cast<int64_t>(minute_ms)),
                       absl::UTCTimeZone());
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the minute of ", minute,
                                      " has as many messages of the topic as it may have: ", limit),
                         {.reason = "MINUTE_FULL",
                          .field = "deliver_time",
                          .metadata = {{"minute", minute}, {"limit", absl::StrCat(limit)}},
                          // Messages of the minute may be cancelled or moved.
                          .retry_after_ms = 60'000});
}

}  // namespace duetime::messages
