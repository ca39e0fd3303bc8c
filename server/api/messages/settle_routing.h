// SPDX-License-Identifier: Apache-2.0
//
// Routing of settlements, from a stream or from a Settle, to the shards of their leases. Pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "duetime/v1/messages.pb.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

inline constexpr size_t kNackReasonBytesMax = 255;

// The settlements of one request, sorted by the shard that must decide them.
struct RoutedSettles {
  // Index: shard. Empty commands are not to be posted.
  std::vector<protocol::SettleCommand> by_shard;
  // Settlements that are refused without asking a shard.
  std::vector<std::pair<protocol::LeaseToken, v1::SettleRefusal::Reason>> refused;
  // The number of tokens that the shards will answer.
  size_t posted = 0;
};

// Routes settlements by the shard in their token. LEASE_LOST: the token's shard does not exist.
// OUT_OF_RANGE: a nack with a delay over 12 h or a reason over 255 bytes, or an extend outside 1 s
// to 12 h. Overwrites `routed`.
void RouteSettles(const v1::SubscribeRequest& request, protocol::StreamId stream,
                  uint16_t shard_count, RoutedSettles* routed);
void RouteSettles(const v1::SettleRequest& request, protocol::StreamId stream, uint16_t shard_count,
                  RoutedSettles* routed);

// True if the command settles nothing.
bool IsEmpty(const protocol::SettleCommand& command);

// The reason that clients see for a shard's refusal.
v1::SettleRefusal::Reason ToProto(protocol::SettleRefusal refusal);

}  // namespace duetime::api
