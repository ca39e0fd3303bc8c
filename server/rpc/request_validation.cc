// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/request_validation.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {
namespace {

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

absl::Status ValidateBatchSize(size_t items, size_t bytes, const RequestLimits& limits) {
  if (items > limits.batch_messages_max) {
    return OverLimit("BATCH_TOO_LARGE", "messages", items, limits.batch_messages_max, "messages");
  }
  if (bytes > limits.batch_bytes_max) {
    return OverLimit("BATCH_TOO_LARGE", "messages", bytes, limits.batch_bytes_max, "bytes");
  }
  return absl::OkStatus();
}

absl::Status ValidateStart(const v1::SubscribeStart& start, const RequestLimits& limits,
                           ValidStart* valid) {
  constexpr absl::string_view kReason = "INVALID_SUBSCRIBE";
  if (absl::Status status = ValidateTopic(start.topic(), "topic"); !status.ok()) return status;
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
