// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/request_validation.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/rpc/proto_time.h"

namespace duetime::rpc {
namespace {

std::string Path(int index, absl::string_view field) {
  return index == kSingle ? std::string(field) : absl::StrCat("messages[", index, "].", field);
}

// An INVALID_ARGUMENT for a field: "<field>: <text>".
absl::Status Invalid(absl::string_view reason, const std::string& field, absl::string_view text,
                     std::vector<std::pair<std::string, std::string>> metadata = {}) {
  metadata.emplace_back("field", field);
  return base::MakeError(absl::StatusCode::kInvalidArgument, absl::StrCat(field, ": ", text),
                         {.reason = std::string(reason),
                          .field = field,
                          .metadata = std::move(metadata),
                          .retry_after_ms = 0});
}

// "<field>: <value> <unit>, limit <limit>".
absl::Status OverLimit(absl::string_view reason, const std::string& field, uint64_t value,
                       uint64_t limit, absl::string_view unit) {
  return Invalid(reason, field, absl::StrCat(value, " ", unit, ", limit ", limit),
                 {{"value", absl::StrCat(value)}, {"limit", absl::StrCat(limit)}});
}

bool IsTopicChar(char c) {
  const auto u = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(u) || c == '.' || c == '_' || c == '-' || c == ':' || c == '/';
}

absl::Status ValidateTopic(absl::string_view topic, int index) {
  if (topic.empty()) {
    return Invalid("INVALID_TOPIC", Path(index, "topic"), "required");
  }
  if (topic.size() > kTopicBytesMax) {
    return OverLimit("INVALID_TOPIC", Path(index, "topic"), topic.size(), kTopicBytesMax, "bytes");
  }
  for (size_t i = 0; i < topic.size(); ++i) {
    if (!IsTopicChar(topic[i])) {
      return Invalid("INVALID_TOPIC", Path(index, "topic"),
                     absl::StrCat("byte ", i, " is not a letter, a digit or one of . _ - : /"),
                     {{"position", absl::StrCat(i)}});
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateAttributes(const v1::ScheduleRequest& request, const RequestLimits& limits,
                                int index, ValidSchedule* valid) {
  valid->attributes.clear();
  const auto& attributes = request.attributes();
  if (attributes.empty()) return absl::OkStatus();
  if (attributes.size() > limits.attributes_max) {
    return OverLimit("INVALID_ATTRIBUTES", Path(index, "attributes"), attributes.size(),
                     limits.attributes_max, "pairs");
  }
  size_t bytes = 0;
  for (const auto& [key, value] : attributes) {
    if (key.empty()) {
      return Invalid("INVALID_ATTRIBUTES", Path(index, "attributes"), "a key is empty");
    }
    if (key.size() > kAttributeKeyBytesMax) {
      return OverLimit("INVALID_ATTRIBUTES", Path(index, "attributes"), key.size(),
                       kAttributeKeyBytesMax, "bytes in a key");
    }
    bytes += key.size() + value.size();
    valid->attributes.emplace_back(key, value);
  }
  if (bytes > limits.attributes_bytes_max) {
    return OverLimit("INVALID_ATTRIBUTES", Path(index, "attributes"), bytes,
                     limits.attributes_bytes_max, "bytes");
  }
  return absl::OkStatus();
}

absl::Status ResolveWhen(const v1::ScheduleRequest& request, const RequestLimits& limits,
                         uint64_t now_ms, int index, uint64_t* deliver_ms) {
  constexpr absl::string_view kReason = "DELIVER_TIME_OUT_OF_RANGE";
  // A horizon near the top of the type must not wrap. What is added to now_ms stays below 2^49
  // otherwise.
  const uint64_t latest =
      limits.horizon_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + limits.horizon_ms;
  absl::string_view field;
  switch (request.when_case()) {
    case v1::ScheduleRequest::WHEN_NOT_SET:
    case v1::ScheduleRequest::kCivilTime:
      return Invalid("DELIVER_TIME_MISSING", Path(index, "deliver_time"),
                     "required: exactly one of deliver_time and delay");
    case v1::ScheduleRequest::kDeliverTime: {
      field = "deliver_time";
      const std::optional<uint64_t> ms = TimestampToMs(request.deliver_time());
      if (!ms.has_value()) {
        return Invalid(kReason, Path(index, field),
                       "not a valid timestamp: years 0001-9999, nanos 0 to 999999999");
      }
      *deliver_ms = *ms;
      break;
    }
    case v1::ScheduleRequest::kDelay: {
      field = "delay";
      const std::optional<uint64_t> ms = DurationToMs(request.delay());
      if (!ms.has_value()) {
        return Invalid(kReason, Path(index, field), "negative or not a valid duration");
      }
      *deliver_ms = now_ms + *ms;
      break;
    }
  }
  if (*deliver_ms <= latest && *deliver_ms <= storage::MessageId::kDueMax) return absl::OkStatus();
  return OverLimit(kReason, Path(index, field), *deliver_ms - now_ms, limits.horizon_ms,
                   "ms ahead");
}

absl::Status ParseId(absl::string_view text, storage::MessageId* id) {
  const std::optional<storage::MessageId> parsed = storage::MessageId::Parse(text);
  if (!parsed.has_value()) {
    return Invalid("INVALID_MESSAGE_ID", "message_id",
                   "not an id that a server gives (26 characters of lower-case base32)");
  }
  *id = *parsed;
  return absl::OkStatus();
}

// The command of a token's shard, or null if there is no such shard.
delivery::SettleCommand* CommandFor(delivery::LeaseToken token, uint16_t shard_count,
                                    RoutedSettles* routed) {
  const uint16_t shard = delivery::ShardOfLease(token);
  if (shard < shard_count) {
    ++routed->posted;
    return &routed->by_shard[shard];
  }
  routed->refused.emplace_back(token, v1::SettleRefusal::LEASE_LOST);
  return nullptr;
}

}  // namespace

absl::Status ValidateSchedule(const v1::ScheduleRequest& request, const RequestLimits& limits,
                              uint64_t now_ms, int index, ValidSchedule* valid) {
  if (absl::Status status = ValidateTopic(request.topic(), index); !status.ok()) return status;
  if (request.payload().size() > limits.payload_bytes_max) {
    return OverLimit("PAYLOAD_TOO_LARGE", Path(index, "payload"), request.payload().size(),
                     limits.payload_bytes_max, "bytes");
  }
  if (absl::Status status = ValidateAttributes(request, limits, index, valid); !status.ok()) {
    return status;
  }
  valid->topic = request.topic();
  valid->payload = request.payload();
  return ResolveWhen(request, limits, now_ms, index, &valid->deliver_ms);
}

absl::Status ValidateBatchSize(size_t messages, size_t bytes, const RequestLimits& limits) {
  if (messages > limits.batch_messages_max) {
    return OverLimit("BATCH_TOO_LARGE", "messages", messages, limits.batch_messages_max,
                     "messages");
  }
  if (bytes > limits.batch_bytes_max) {
    return OverLimit("BATCH_TOO_LARGE", "messages", bytes, limits.batch_bytes_max, "bytes");
  }
  return absl::OkStatus();
}

absl::Status ValidateCancel(const v1::CancelRequest& request, storage::MessageId* id) {
  return ParseId(request.message_id(), id);
}

absl::Status ValidateGet(const v1::GetRequest& request, ValidGet* valid) {
  if (!v1::MessageView_IsValid(request.view())) {
    return Invalid("INVALID_VIEW", "view", absl::StrCat("unknown value ", request.view()),
                   {{"value", absl::StrCat(request.view())}});
  }
  valid->full = request.view() == v1::FULL;
  return ParseId(request.message_id(), &valid->id);
}

absl::Status ValidateStart(const v1::SubscribeStart& start, const RequestLimits& limits,
                           ValidStart* valid) {
  constexpr absl::string_view kReason = "INVALID_SUBSCRIBE";
  if (absl::Status status = ValidateTopic(start.topic(), kSingle); !status.ok()) return status;
  if (start.client_id().size() > kClientIdBytesMax) {
    return OverLimit(kReason, "client_id", start.client_id().size(), kClientIdBytesMax, "bytes");
  }
  const int32_t messages = start.max_outstanding_messages();
  if (messages < 0) return Invalid(kReason, "max_outstanding_messages", "negative");
  if (messages > limits.outstanding_messages_max) {
    return OverLimit(kReason, "max_outstanding_messages", static_cast<uint64_t>(messages),
                     static_cast<uint64_t>(limits.outstanding_messages_max), "messages");
  }
  const int64_t bytes = start.max_outstanding_bytes();
  if (bytes < 0) return Invalid(kReason, "max_outstanding_bytes", "negative");
  if (bytes > kOutstandingBytesMax) {
    return OverLimit(kReason, "max_outstanding_bytes", static_cast<uint64_t>(bytes),
                     static_cast<uint64_t>(kOutstandingBytesMax), "bytes");
  }
  valid->lease_ms = kLeaseMsDefault;
  if (start.has_lease_duration()) {
    const std::optional<uint64_t> lease_ms = DurationToMs(start.lease_duration());
    // Less than a second must not pass by being rounded up to one.
    if (!lease_ms.has_value() || start.lease_duration().seconds() < 1 || *lease_ms > kLeaseMsMax) {
      return Invalid(kReason, "lease_duration", "not within 1 s to 12 h",
                     {{"limit_min_ms", absl::StrCat(kLeaseMsMin)},
                      {"limit_max_ms", absl::StrCat(kLeaseMsMax)}});
    }
    valid->lease_ms = *lease_ms;
  }
  valid->topic = start.topic();
  valid->client_id = start.client_id();
  valid->max_outstanding_messages =
      messages != 0 ? messages
                    : std::min(kOutstandingMessagesDefault, limits.outstanding_messages_max);
  valid->max_outstanding_bytes = bytes != 0 ? bytes : kOutstandingBytesDefault;
  return absl::OkStatus();
}

absl::Status InvalidSubscribeError(absl::string_view field, absl::string_view text) {
  return Invalid("INVALID_SUBSCRIBE", std::string(field), text);
}

absl::Status MalformedRequestError() {
  return base::MakeError(
      absl::StatusCode::kInvalidArgument,
      "the bytes are not the protobuf message of this call, or a string in it is not UTF-8",
      {.reason = "MALFORMED_REQUEST", .field = "", .metadata = {}, .retry_after_ms = 0});
}

absl::Status UnknownFieldsError(size_t bytes) {
  return base::MakeError(
      absl::StatusCode::kInvalidArgument,
      absl::StrCat("unknown fields: ", bytes, " bytes, limit ", kUnknownFieldBytesMax),
      {.reason = "MALFORMED_REQUEST",
       .field = "",
       .metadata = {{"value", absl::StrCat(bytes)}, {"limit", absl::StrCat(kUnknownFieldBytesMax)}},
       .retry_after_ms = 0});
}

void RouteSettles(const v1::SubscribeRequest& request, delivery::StreamId stream,
                  uint16_t shard_count, RoutedSettles* routed) {
  routed->refused.clear();
  routed->posted = 0;
  routed->by_shard.assign(
      shard_count,
      delivery::SettleCommand{.stream = stream, .acks = {}, .nacks = {}, .extends = {}});
  const auto acks = static_cast<size_t>(request.ack_size());
  // Nearly always exact: a client settles what it was given, and one shard is the common case.
  for (auto& command : routed->by_shard) command.acks.reserve(acks / shard_count + 1);
  for (const uint64_t ack : request.ack()) {
    const delivery::LeaseToken token{ack};
    if (auto* command = CommandFor(token, shard_count, routed)) command->acks.push_back(token);
  }
  for (const v1::Nack& nack : request.nack()) {
    const delivery::LeaseToken token{nack.lease_token()};
    const std::optional<uint64_t> delay_ms = DurationToMs(nack.delay());
    if (!delay_ms.has_value() || *delay_ms > kLeaseMsMax ||
        nack.reason().size() > kNackReasonBytesMax) {
      routed->refused.emplace_back(token, v1::SettleRefusal::OUT_OF_RANGE);
      continue;
    }
    if (auto* command = CommandFor(token, shard_count, routed)) {
      command->nacks.push_back({.token = token, .delay_ms = *delay_ms});
    }
  }
  for (const v1::ExtendLease& extend : request.extend()) {
    const delivery::LeaseToken token{extend.lease_token()};
    const std::optional<uint64_t> duration_ms = DurationToMs(extend.duration());
    if (!duration_ms.has_value() || extend.duration().seconds() < 1 || *duration_ms > kLeaseMsMax) {
      routed->refused.emplace_back(token, v1::SettleRefusal::OUT_OF_RANGE);
      continue;
    }
    if (auto* command = CommandFor(token, shard_count, routed)) {
      command->extends.push_back({.token = token, .duration_ms = *duration_ms});
    }
  }
}

}  // namespace duetime::rpc
