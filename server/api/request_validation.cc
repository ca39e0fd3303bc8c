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
#include "server/rpc/message_io.h"

namespace duetime::api {
namespace {

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

// The name of the field with the items of a batch.
absl::string_view ItemsOf(const google::protobuf::Descriptor* type) {
  int i = 0;
  while (!type->field(i)->is_repeated()) ++i;
  return type->field(i)->name();
}

}  // namespace

absl::Status ParseBatch(const RequestLimits& limits, grpc::ByteBuffer* buffer,
                        google::protobuf::Message* request) {
  constexpr absl::string_view kReason = "BATCH_TOO_LARGE";
  const size_t bytes = buffer->Length();
  rpc::WireSummary summary;
  absl::Status status = rpc::CheckRequest(buffer, request->GetDescriptor(), &summary);
  if (!status.ok()) return status;
  const std::string items(ItemsOf(request->GetDescriptor()));
  if (summary.elements > limits.batch_messages_max) {
    return OverLimit(kReason, items, summary.elements, limits.batch_messages_max, items);
  }
  // One message has limits of its own, which may be larger.
  if (bytes > limits.batch_bytes_max && summary.elements > 1) {
    return OverLimit(kReason, items, bytes, limits.batch_bytes_max, "bytes");
  }
  return rpc::ParseChecked(buffer, request);
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
  if (status.ok() && start.max_deliveries() < 0) {
    status = Invalid(kReason, "max_deliveries", "negative");
  }
  valid->max_deliveries = start.max_deliveries();
  valid->reports_begun = start.reports_begun();
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
  return settings.lease_ms() > 0 ? settings.lease_ms() : kLeaseMsDefault;
}

absl::Status InvalidSubscribeError(absl::string_view field, absl::string_view text) {
  return Invalid("INVALID_SUBSCRIBE", std::string(field), text);
}

}  // namespace duetime::api
