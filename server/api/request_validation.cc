// SPDX-License-Identifier: Apache-2.0
#include "server/api/request_validation.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/subscriptions/subscription_settings.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"

namespace duetime::api {
namespace {

// The command of a token's shard, or null if there is no such shard.
protocol::SettleCommand* CommandFor(protocol::LeaseToken token, uint16_t shard_count,
                                    RoutedSettles* routed) {
  const uint16_t shard = protocol::ShardOfLease(token);
  if (shard < shard_count) {
    ++routed->posted;
    return &routed->by_shard[shard];
  }
  routed->refused.emplace_back(token, v1::SettleRefusal::LEASE_LOST);
  return nullptr;
}

void RouteNack(const v1::Nack& nack, uint16_t shard_count, RoutedSettles* routed) {
  const protocol::LeaseToken token{nack.lease_token()};
  const std::optional<uint64_t> delay_ms =
      nack.has_delay() ? DurationToMs(nack.delay()) : std::nullopt;
  const bool in_range = !nack.has_delay() || (delay_ms.has_value() && *delay_ms <= kLeaseMsMax);
  if (!in_range || nack.reason().size() > kNackReasonBytesMax) {
    routed->refused.emplace_back(token, v1::SettleRefusal::OUT_OF_RANGE);
  } else if (auto* command = CommandFor(token, shard_count, routed)) {
    command->nacks.push_back({.token = token, .delay_ms = delay_ms, .reason = nack.reason()});
  }
}

void RouteDeadLetter(const v1::DeadLetterLease& letter, uint16_t shard_count,
                     RoutedSettles* routed) {
  const protocol::LeaseToken token{letter.lease_token()};
  if (letter.reason().size() > kNackReasonBytesMax) {
    routed->refused.emplace_back(token, v1::SettleRefusal::OUT_OF_RANGE);
  } else if (auto* command = CommandFor(token, shard_count, routed)) {
    command->dead_letters.push_back({.token = token, .reason = letter.reason()});
  }
}

void RouteExtend(const v1::ExtendLease& extend, uint16_t shard_count, RoutedSettles* routed) {
  const protocol::LeaseToken token{extend.lease_token()};
  const std::optional<uint64_t> duration_ms = DurationToMs(extend.duration());
  if (!duration_ms.has_value() || extend.duration().seconds() < 1 || *duration_ms > kLeaseMsMax) {
    routed->refused.emplace_back(token, v1::SettleRefusal::OUT_OF_RANGE);
  } else if (auto* command = CommandFor(token, shard_count, routed)) {
    command->extends.push_back({.token = token, .duration_ms = *duration_ms});
  }
}

// Routes the settlements of a request. Both types of requests name the fields alike.
template <typename Request>
void Route(const Request& request, protocol::StreamId stream, uint16_t shard_count,
           RoutedSettles* routed) {
  routed->refused.clear();
  routed->posted = 0;
  protocol::SettleCommand none;
  none.stream = stream;
  routed->by_shard.assign(shard_count, none);
  const auto acks = static_cast<size_t>(request.ack_size());
  // With one shard, the common case, this is enough for all acks.
  for (auto& command : routed->by_shard) command.acks.reserve(acks / shard_count + 1);
  for (const uint64_t ack : request.ack()) {
    const protocol::LeaseToken token{ack};
    if (auto* command = CommandFor(token, shard_count, routed)) command->acks.push_back(token);
  }
  for (const v1::Nack& nack : request.nack()) RouteNack(nack, shard_count, routed);
  for (const v1::ExtendLease& extend : request.extend()) RouteExtend(extend, shard_count, routed);
  for (const v1::DeadLetterLease& letter : request.dead_letter()) {
    RouteDeadLetter(letter, shard_count, routed);
  }
}

// Checks the seconds as well, because DurationToMs rounds 999.5 ms up to 1 s.
absl::Status ReadLease(const google::protobuf::Duration& lease, absl::string_view reason,
                       uint64_t* lease_ms) {
  const std::optional<uint64_t> read = DurationToMs(lease);
  if (!read.has_value() || lease.seconds() < 1 || *read > kLeaseMsMax) {
    return Invalid(
        reason, "lease_duration", "not within 1 s to 12 h",
        {{"limit_min_ms", absl::StrCat(kLeaseMsMin)}, {"limit_max_ms", absl::StrCat(kLeaseMsMax)}});
  }
  *lease_ms = *read;
  return absl::OkStatus();
}

// Reads the fields that both types of requests share: topic, subscription, client and lease.
template <typename Request>
absl::Status ReadWho(const Request& request, absl::string_view reason, ValidStart* valid) {
  absl::Status status = ValidateTopic(request.topic(), "topic");
  if (status.ok()) {
    status = ValidateSubscription(request.subscription(), "subscription", &valid->subscription);
  }
  if (status.ok() && request.client_id().size() > kClientIdBytesMax) {
    status = OverLimit(reason, "client_id", request.client_id().size(), kClientIdBytesMax, "bytes");
  }
  if (status.ok() && request.has_lease_duration()) {
    status = ReadLease(request.lease_duration(), reason, &valid->lease_ms);
  }
  valid->topic = request.topic();
  valid->client_id = request.client_id();
  return status;
}

// OK if a number of messages or bytes is neither negative nor over its limit.
absl::Status CheckAmount(int64_t value, int64_t limit, absl::string_view reason,
                         const std::string& field, absl::string_view unit) {
  if (value < 0) return Invalid(reason, field, "negative");
  if (value <= limit) return absl::OkStatus();
  return OverLimit(reason, field, static_cast<uint64_t>(value), static_cast<uint64_t>(limit), unit);
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
  *valid = {};
  const auto messages_max = static_cast<int32_t>(limits.outstanding_messages_max);
  const int32_t messages = start.max_outstanding_messages();
  const int64_t bytes = start.max_outstanding_bytes();
  absl::Status status = ReadWho(start, kReason, valid);
  if (status.ok()) {
    status = CheckAmount(messages, messages_max, kReason, "max_outstanding_messages", "messages");
  }
  if (status.ok()) {
    status = CheckAmount(bytes, kOutstandingBytesMax, kReason, "max_outstanding_bytes", "bytes");
  }
  valid->max_outstanding_messages =
      messages != 0 ? messages : std::min(kOutstandingMessagesDefault, messages_max);
  valid->max_outstanding_bytes = bytes != 0 ? bytes : kOutstandingBytesDefault;
  return status;
}

absl::Status ValidatePull(const v1::PullRequest& request, const RequestLimits& limits,
                          ValidStart* valid, uint64_t* wait_ms) {
  constexpr absl::string_view kReason = "INVALID_PULL";
  *valid = {};
  const int32_t messages_max =
      std::min(kPullMessagesMax, static_cast<int32_t>(limits.outstanding_messages_max));
  const int32_t messages = request.max_messages();
  const int64_t bytes = request.max_bytes();
  absl::Status status = ReadWho(request, kReason, valid);
  if (status.ok()) {
    status = CheckAmount(messages, messages_max, kReason, "max_messages", "messages");
  }
  if (status.ok()) status = CheckAmount(bytes, kPullBytesMax, kReason, "max_bytes", "bytes");
  if (!status.ok()) return status;
  const std::optional<uint64_t> wait = DurationToMs(request.wait());
  if (!wait.has_value()) return Invalid(kReason, "wait", "negative or not a valid duration");
  if (*wait > kPullWaitMsMax) return OverLimit(kReason, "wait", *wait, kPullWaitMsMax, "ms");
  *wait_ms = *wait;
  valid->max_outstanding_messages =
      messages != 0 ? messages : std::min(kPullMessagesDefault, messages_max);
  valid->max_outstanding_bytes = bytes != 0 ? bytes : kPullBytesDefault;
  return absl::OkStatus();
}

uint64_t LeaseMs(const ValidStart& start, const protocol::SubscriptionSettings& settings) {
  if (start.lease_ms > 0) return start.lease_ms;
  return settings.lease_ms > 0 ? settings.lease_ms : kLeaseMsDefault;
}

absl::Status InvalidSubscribeError(absl::string_view field, absl::string_view text) {
  return Invalid("INVALID_SUBSCRIBE", std::string(field), text);
}

void RouteSettles(const v1::SubscribeRequest& request, protocol::StreamId stream,
                  uint16_t shard_count, RoutedSettles* routed) {
  Route(request, stream, shard_count, routed);
}

void RouteSettles(const v1::SettleRequest& request, protocol::StreamId stream, uint16_t shard_count,
                  RoutedSettles* routed) {
  Route(request, stream, shard_count, routed);
}

bool IsEmpty(const protocol::SettleCommand& command) {
  return command.acks.empty() && command.nacks.empty() && command.extends.empty() &&
         command.dead_letters.empty();
}

v1::SettleRefusal::Reason ToProto(protocol::SettleRefusal refusal) {
  switch (refusal) {
    case protocol::SettleRefusal::kLeaseLost:
      return v1::SettleRefusal::LEASE_LOST;
    case protocol::SettleRefusal::kNoDeadLetterTopic:
      return v1::SettleRefusal::NO_DEAD_LETTER_TOPIC;
  }
  return v1::SettleRefusal::REASON_UNSPECIFIED;
}

}  // namespace duetime::api
