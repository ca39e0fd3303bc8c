// SPDX-License-Identifier: Apache-2.0
//
// Settlements, from a stream or from a Settle: parsing, and routing to the shards of their leases.
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <grpcpp/support/byte_buffer.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_limits.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

inline constexpr size_t kNackReasonBytesMax = 255;
inline constexpr size_t kTokenBytesMax = 64;

// The settlements of one request, sorted by the shard that must decide them.
struct RoutedSettles {
  // Index: shard. Empty commands are not to be posted.
  std::vector<protocol::SettleCommand> by_shard;
  // Tokens, as the client sent them but cut to kEchoedTokenBytesMax, of settlements that are
  // refused without asking a shard.
  std::vector<std::pair<std::string, v1::SettleRefusal::Reason>> refused;
  // The number of tokens that the shards will answer.
  size_t posted = 0;
};

// Parses a SubscribeRequest or a SettleRequest. Checks the number of its tokens before it
// spends memory on them, and then their length: refusals repeat them and wait for a client that may
// not read.
// INVALID_SUBSCRIBE or INVALID_SETTLE with the field `settlements` or `lease_token`.
absl::Status ParseSettles(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                          v1::SubscribeRequest* request);
absl::Status ParseSettles(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                          v1::SettleRequest* request);

// Routes settlements by the shard in their token. LEASE_LOST: no lease can have the token.
// OUT_OF_RANGE: a nack or release with a delay over 12 h, a reason over 255 bytes, or an extend
// outside 1 s to 12 h. UNKNOWN_ACTION: an action of a newer client. Overwrites `routed`.
void RouteSettles(const v1::SubscribeRequest& request, protocol::StreamId stream,
                  uint16_t shard_count, RoutedSettles* routed);
void RouteSettles(const v1::SettleRequest& request, protocol::StreamId stream, uint16_t shard_count,
                  RoutedSettles* routed);

// Takes the refused dead letters of `topic` out of `letters`. Returns the settlements to send
// again, by shard.
std::vector<protocol::SettleCommand> AgainByShard(
    storage::TopicId topic, protocol::StreamId stream, uint16_t shard_count,
    std::vector<protocol::RefusedSettlement>* letters);

// The reason that clients see for a shard's refusal.
v1::SettleRefusal::Reason ToProto(protocol::SettleRefusal refusal);

}  // namespace duetime::api
