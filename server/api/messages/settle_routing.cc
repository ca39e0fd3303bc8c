// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/settle_routing.h"

#include <optional>

#include "server/api/proto_time.h"
#include "server/api/request_validation.h"
#include "server/protocol/tags.h"

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

}  // namespace

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
