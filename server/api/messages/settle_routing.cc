// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/settle_routing.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/api/proto_time.h"
#include "server/api/request_validation.h"
#include "server/api/validation_error.h"
#include "server/protocol/lease_token.h"
#include "server/rpc/message_io.h"

namespace duetime::api {
namespace {

// Parses a token and finds the command of its shard. Null if no lease can have the token.
protocol::SettleCommand* CommandFor(const std::string& text, RoutedSettles* routed,
                                    protocol::LeaseToken* token) {
  if (const auto parsed = protocol::ParseLease(text); parsed.has_value()) {
    *token = *parsed;
    const uint16_t shard = protocol::ShardOfLease(*token);
    if (shard < routed->by_shard.size()) {
      ++routed->posted;
      return &routed->by_shard[shard];
    }
  }
  routed->refused.emplace_back(text, v1::SettleRefusal::REASON_LEASE_LOST);
  return nullptr;
}

// Sets the time of the settlement. Returns false if the time is out of range.
bool SetTime(const google::protobuf::Duration& from, uint64_t min_ms,
             protocol::Settlement* settlement) {
  settlement->ms = DurationToMs(from);
  // DurationToMs rounds up.
  const bool shorter = min_ms > 0 && from.seconds() < 1;
  return settlement->ms.has_value() && *settlement->ms <= kLeaseMsMax && !shorter;
}

// Sets the reason of the settlement. Returns false if the reason is too long.
bool SetReason(const std::string& from, protocol::Settlement* settlement) {
  settlement->reason = from;
  return from.size() <= kNackReasonBytesMax;
}

// The action of a newer client must not be taken for an ack.
bool HasUnknownAction(const v1::Settlement& from) {
  // Settlement.action keeps the lower numbers for itself.
  constexpr int kActionMax = 15;
  const auto& unknown = v1::Settlement::GetReflection()->GetUnknownFields(from);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() <= kActionMax) return true;
  }
  return false;
}

// OK, OUT_OF_RANGE or UNKNOWN_ACTION; REASON_UNSPECIFIED means OK.
v1::SettleRefusal::Reason Read(const v1::Settlement& from, protocol::Settlement* settlement) {
  using Action = v1::Settlement::ActionCase;
  bool in_range = true;
  switch (from.action_case()) {
    case Action::ACTION_NOT_SET:
      if (HasUnknownAction(from)) return v1::SettleRefusal::REASON_UNKNOWN_ACTION;
      settlement->action = protocol::SettleAction::kAck;
      break;
    case Action::kNack:
      settlement->action = protocol::SettleAction::kNack;
      if (from.nack().has_delay()) in_range = SetTime(from.nack().delay(), 0, settlement);
      in_range = SetReason(from.nack().reason(), settlement) && in_range;
      break;
    case Action::kExtend:
      settlement->action = protocol::SettleAction::kExtend;
      in_range = SetTime(from.extend().duration(), 1'000, settlement);
      break;
    case Action::kDeadLetter:
      settlement->action = protocol::SettleAction::kDeadLetter;
      in_range = SetReason(from.dead_letter().reason(), settlement);
      break;
    case Action::kRelease:
      settlement->action = protocol::SettleAction::kRelease;
      if (from.release().has_delay()) in_range = SetTime(from.release().delay(), 0, settlement);
      break;
  }
  return in_range ? v1::SettleRefusal::REASON_UNSPECIFIED : v1::SettleRefusal::REASON_OUT_OF_RANGE;
}

using Settlements = google::protobuf::RepeatedPtrField<v1::Settlement>;

void Begin(protocol::StreamId stream, uint16_t shard_count, RoutedSettles* routed) {
  routed->refused.clear();
  routed->posted = 0;
  routed->by_shard.clear();
  routed->by_shard.resize(shard_count);
  for (protocol::SettleCommand& command : routed->by_shard) command.stream = stream;
}

void Route(const Settlements& settlements, RoutedSettles* routed) {
  const size_t shards = routed->by_shard.size();
  // With one shard, the common case, this is enough for all.
  const auto each = static_cast<size_t>(settlements.size()) / shards + 1;
  for (auto& command : routed->by_shard) command.settlements.reserve(each);
  for (const v1::Settlement& from : settlements) {
    protocol::Settlement settlement;
    const v1::SettleRefusal::Reason refusal = Read(from, &settlement);
    if (refusal != v1::SettleRefusal::REASON_UNSPECIFIED) {
      routed->refused.emplace_back(from.lease_token(), refusal);
    } else if (auto* command = CommandFor(from.lease_token(), routed, &settlement.token)) {
      command->settlements.push_back(std::move(settlement));
    }
  }
}

size_t LongestToken(const Settlements& settlements) {
  size_t bytes = 0;
  for (const v1::Settlement& one : settlements) bytes = std::max(bytes, one.lease_token().size());
  return bytes;
}

size_t LongestToken(const v1::SettleRequest& request) {
  return LongestToken(request.settlements());
}

size_t LongestToken(const v1::SubscribeRequest& request) {
  size_t bytes = LongestToken(request.settlements());
  for (const std::string& token : request.begun()) bytes = std::max(bytes, token.size());
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
    return OverLimit(reason, "settlements", summary.elements, settles_max, "settlements");
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
  Begin(stream, shard_count, routed);
  protocol::LeaseToken token{};
  for (const std::string& text : request.begun()) {
    if (auto* command = CommandFor(text, routed, &token)) command->begun.push_back(token);
  }
  Route(request.settlements(), routed);
}

void RouteSettles(const v1::SettleRequest& request, protocol::StreamId stream, uint16_t shard_count,
                  RoutedSettles* routed) {
  Begin(stream, shard_count, routed);
  Route(request.settlements(), routed);
}

std::vector<protocol::SettleCommand> AgainByShard(
    storage::TopicId topic, protocol::StreamId stream, uint16_t shard_count,
    std::vector<protocol::RefusedSettlement>* letters) {
  std::vector<protocol::SettleCommand> by_shard(shard_count);
  for (protocol::SettleCommand& command : by_shard) command.stream = stream;
  std::erase_if(*letters, [&](protocol::RefusedSettlement& letter) {
    if (letter.topic != topic) return false;
    by_shard[protocol::ShardOfLease(letter.token)].settlements.push_back(
        {.token = letter.token,
         .action = protocol::SettleAction::kDeadLetter,
         .reason = std::move(letter.reason),
         .again = true});
    return true;
  });
  return by_shard;
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
