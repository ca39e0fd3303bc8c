// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/settle_routing.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "server/api/proto_time.h"
#include "server/api/request_validation.h"
#include "server/api/validation_error.h"
#include "server/protocol/lease_token.h"
#include "server/rpc/message_io.h"

namespace duetime::api {
namespace {

// Parses a token and finds the command of its shard. Null if no lease can have the token.
protocol::SettleCommand* CommandFor(const std::string& text, uint16_t shard_count,
                                    RoutedSettles* routed, protocol::LeaseToken* token) {
  if (const auto parsed = protocol::ParseLease(text); parsed.has_value()) {
    *token = *parsed;
    const uint16_t shard = protocol::ShardOfLease(*token);
    if (shard < shard_count) {
      ++routed->posted;
      return &routed->by_shard[shard];
    }
  }
  routed->refused.emplace_back(text, v1::SettleRefusal::REASON_LEASE_LOST);
  return nullptr;
}

void RouteNack(const v1::Nack& nack, uint16_t shard_count, RoutedSettles* routed) {
  protocol::LeaseToken token{};
  const std::optional<uint64_t> delay_ms =
      nack.has_delay() ? DurationToMs(nack.delay()) : std::nullopt;
  const bool in_range = !nack.has_delay() || (delay_ms.has_value() && *delay_ms <= kLeaseMsMax);
  if (!in_range || nack.reason().size() > kNackReasonBytesMax) {
    routed->refused.emplace_back(nack.lease_token(), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  } else if (auto* command = CommandFor(nack.lease_token(), shard_count, routed, &token)) {
    command->nacks.push_back({.token = token, .delay_ms = delay_ms, .reason = nack.reason()});
  }
}

void RouteRelease(const v1::ReleaseLease& release, uint16_t shard_count, RoutedSettles* routed) {
  protocol::LeaseToken token{};
  const std::optional<uint64_t> delay_ms =
      release.has_delay() ? DurationToMs(release.delay()) : std::optional<uint64_t>(0);
  if (!delay_ms.has_value() || *delay_ms > kLeaseMsMax) {
    routed->refused.emplace_back(release.lease_token(), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  } else if (auto* command = CommandFor(release.lease_token(), shard_count, routed, &token)) {
    command->releases.push_back({.token = token, .delay_ms = *delay_ms});
  }
}

void RouteDeadLetter(const v1::DeadLetterLease& letter, uint16_t shard_count,
                     RoutedSettles* routed) {
  protocol::LeaseToken token{};
  if (letter.reason().size() > kNackReasonBytesMax) {
    routed->refused.emplace_back(letter.lease_token(), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  } else if (auto* command = CommandFor(letter.lease_token(), shard_count, routed, &token)) {
    command->dead_letters.push_back({.token = token, .reason = letter.reason()});
  }
}

void RouteExtend(const v1::ExtendLease& extend, uint16_t shard_count, RoutedSettles* routed) {
  protocol::LeaseToken token{};
  const std::optional<uint64_t> duration_ms = DurationToMs(extend.duration());
  if (!duration_ms.has_value() || extend.duration().seconds() < 1 || *duration_ms > kLeaseMsMax) {
    routed->refused.emplace_back(extend.lease_token(), v1::SettleRefusal::REASON_OUT_OF_RANGE);
  } else if (auto* command = CommandFor(extend.lease_token(), shard_count, routed, &token)) {
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
  protocol::LeaseToken token{};
  const auto route = [&](const auto& texts,
                         std::vector<protocol::LeaseToken>(protocol::SettleCommand::*tokens)) {
    for (const std::string& text : texts) {
      if (auto* command = CommandFor(text, shard_count, routed, &token)) {
        (command->*tokens).push_back(token);
      }
    }
  };
  route(request.ack(), &protocol::SettleCommand::acks);
  if constexpr (std::is_same_v<Request, v1::SubscribeRequest>) {
    route(request.begun(), &protocol::SettleCommand::begun);
  }
  for (const v1::Nack& nack : request.nack()) RouteNack(nack, shard_count, routed);
  for (const v1::ExtendLease& extend : request.extend()) RouteExtend(extend, shard_count, routed);
  for (const v1::DeadLetterLease& letter : request.dead_letter()) {
    RouteDeadLetter(letter, shard_count, routed);
  }
  for (const v1::ReleaseLease& release : request.release()) {
    RouteRelease(release, shard_count, routed);
  }
}

template <typename Request>
size_t LongestToken(const Request& request) {
  size_t bytes = 0;
  const auto look_at_tokens = [&bytes](const auto& tokens) {
    for (const std::string& token : tokens) bytes = std::max(bytes, token.size());
  };
  look_at_tokens(request.ack());
  if constexpr (std::is_same_v<Request, v1::SubscribeRequest>) look_at_tokens(request.begun());
  const auto look = [&bytes](const auto& items) {
    for (const auto& item : items) bytes = std::max(bytes, item.lease_token().size());
  };
  look(request.nack());
  look(request.extend());
  look(request.dead_letter());
  look(request.release());
  return bytes;
}

template <typename Request>
absl::Status Parse(const RequestLimits& limits, absl::string_view reason, grpc::ByteBuffer* buffer,
                   Request* request) {
  rpc::WireSummary summary;
  absl::Status status = rpc::CheckRequest(buffer, Request::GetDescriptor(), &summary);
  if (!status.ok()) return status;
  const size_t settles_max = limits.outstanding_messages_max;
  if (summary.elements > settles_max) {
    return OverLimit(reason, "ack", summary.elements, settles_max, "settlements");
  }
  if (status = rpc::ParseChecked(buffer, request); !status.ok()) return status;
  const size_t bytes = LongestToken(*request);
  if (bytes <= kTokenBytesMax) return absl::OkStatus();
  return OverLimit(reason, "lease_token", bytes, kTokenBytesMax, "bytes");
}

}  // namespace

absl::Status ParseSettles(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                          v1::SubscribeRequest* request) {
  return Parse(limits, "INVALID_SUBSCRIBE", buffer, request);
}

absl::Status ParseSettles(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                          v1::SettleRequest* request) {
  return Parse(limits, "INVALID_SETTLE", buffer, request);
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
  return command.begun.empty() && command.acks.empty() && command.nacks.empty() &&
         command.extends.empty() && command.dead_letters.empty() && command.releases.empty();
}

v1::SettleRefusal::Reason ToProto(protocol::SettleRefusal refusal) {
  switch (refusal) {
    case protocol::SettleRefusal::kLeaseLost:
      return v1::SettleRefusal::REASON_LEASE_LOST;
    case protocol::SettleRefusal::kNoDeadLetterTopic:
      return v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC;
    case protocol::SettleRefusal::kNoMoreHops:
      return v1::SettleRefusal::REASON_DEAD_LETTER_HOPS;
  }
  return v1::SettleRefusal::REASON_UNSPECIFIED;
}

}  // namespace duetime::api
