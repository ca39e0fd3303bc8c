// SPDX-License-Identifier: Apache-2.0
//
// Limits, batches, and what a subscriber may send. Pure functions: no gRPC, no clock, no state.
// Every refusal is an error of base::MakeError whose reason is named in messages.proto, with the
// field, the value and the limit in the text and in the metadata; nothing that the client sent is
// echoed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_limits.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/time_units.h"

namespace duetime::api {

inline constexpr size_t kAttributeKeyBytesMax = 255;
inline constexpr size_t kClientIdBytesMax = 255;
inline constexpr size_t kNackReasonBytesMax = 255;
inline constexpr uint64_t kLeaseMsMin = 1'000;
inline constexpr uint64_t kLeaseMsMax = 12 * storage::kHourMs;
inline constexpr uint64_t kLeaseMsDefault = 30'000;
inline constexpr int32_t kOutstandingMessagesDefault = 1'000;
inline constexpr int64_t kOutstandingBytesDefault = int64_t{64} << 20;
// Deliveries that wait for a slow reader are in memory, so this too has a bound.
inline constexpr int64_t kOutstandingBytesMax = int64_t{1} << 30;
inline constexpr int32_t kPullMessagesMax = 1'000;
inline constexpr int32_t kPullMessagesDefault = 100;
inline constexpr int64_t kPullBytesMax = int64_t{16} << 20;
inline constexpr int64_t kPullBytesDefault = int64_t{2} << 20;
inline constexpr uint64_t kPullWaitMsMax = 60'000;

// BATCH_TOO_LARGE by count or by size; the items are validated one by one.
absl::Status ValidateBatchSize(size_t items, size_t bytes, const RequestLimits& limits);

// The opening of a stream, or of what stands for one in a Pull, with its defaults filled in. The
// views point into the request.
struct ValidStart {
  absl::string_view topic;
  absl::string_view subscription;
  absl::string_view client_id;
  int32_t max_outstanding_messages = 0;
  int64_t max_outstanding_bytes = 0;
  // 0: as the subscription says.
  uint64_t lease_ms = 0;
};

// INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_SUBSCRIBE.
absl::Status ValidateStart(const v1::SubscribeStart& start, const RequestLimits& limits,
                           ValidStart* valid);

// INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_PULL.
absl::Status ValidatePull(const v1::PullRequest& request, const RequestLimits& limits,
                          ValidStart* valid, uint64_t* wait_ms);

// How long a delivery is leased to one who asked with `start`.
uint64_t LeaseMs(const ValidStart& start, const protocol::SubscriptionSettings& settings);

// INVALID_SUBSCRIBE with `text`, for a stream that is not used as it should be.
absl::Status InvalidSubscribeError(absl::string_view field, absl::string_view text);

// The settlements of one request, sorted by the shard that must decide them.
struct RoutedSettles {
  // Index: shard. Empty ones are not to be posted.
  std::vector<protocol::SettleCommand> by_shard;
  // What is refused without asking a shard.
  std::vector<std::pair<protocol::LeaseToken, v1::SettleRefusal::Reason>> refused;
  // How many tokens the shards will answer.
  size_t posted = 0;
};

// Routes settlements by the shard in their token. A token of a shard that does not exist is
// LEASE_LOST; a nack with a delay over 12 h, a reason over 255 bytes, or an extend not within 1 s
// to 12 h, is OUT_OF_RANGE. `routed` is overwritten.
void RouteSettles(const v1::SubscribeRequest& request, protocol::StreamId stream,
                  uint16_t shard_count, RoutedSettles* routed);
void RouteSettles(const v1::SettleRequest& request, protocol::StreamId stream, uint16_t shard_count,
                  RoutedSettles* routed);

// True if it settles nothing.
bool IsEmpty(const protocol::SettleCommand& command);

// The reason that clients see for a shard's refusal.
v1::SettleRefusal::Reason ToProto(protocol::SettleRefusal refusal);

}  // namespace duetime::api
