// SPDX-License-Identifier: Apache-2.0
//
// Validation of batches and of subscribers' requests. Pure functions: no clock, no state.
//
// Every refusal is an error of base::MakeError with a reason that messages.proto names. Its text
// and metadata give the field, the value and the limit. A refusal echoes no text of the request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/request_limits.h"
#include "server/protocol/subscription_state.h"
#include "storage/time_units.h"

namespace duetime::api {

inline constexpr size_t kAttributeKeyBytesMax = 255;
inline constexpr size_t kClientIdBytesMax = 255;
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

// Parses a batch. Checks its size before it spends memory on it; the caller validates the items one
// by one. BATCH_TOO_LARGE by count, or by size if it has more than one item.
absl::Status ParseBatch(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                        google::protobuf::Message* request);

// The start of a stream, or the same fields of a Pull, with defaults filled in. The views point
// into the request.
struct ValidStart {
  absl::string_view topic;
  absl::string_view subscription;
  absl::string_view client_id;
  int32_t max_outstanding_messages = 0;
  int64_t max_outstanding_bytes = 0;
  // 0: any number.
  int64_t max_deliveries = 0;
  bool reports_begun = false;
  // 0: the lease of the subscription's settings.
  uint64_t lease_ms = 0;
};

// INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_SUBSCRIBE.
absl::Status ValidateStart(const v1::SubscribeStart& start, const RequestLimits& limits,
                           ValidStart* valid);

// INVALID_TOPIC, INVALID_SUBSCRIPTION, INVALID_PULL.
absl::Status ValidatePull(const v1::PullRequest& request, const RequestLimits& limits,
                          ValidStart* valid, uint64_t* wait_ms);

// The length of the leases of a stream or Pull with this `start`.
uint64_t LeaseMs(const ValidStart& start, const protocol::SubscriptionSettings& settings);

// INVALID_SUBSCRIBE with `text`, for a misused stream.
absl::Status InvalidSubscribeError(absl::string_view field, absl::string_view text);

}  // namespace duetime::api
