// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes requests: walks, parses and validates any bytes.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/messages/schedule_validation.h"
#include "server/api/messages/settle_routing.h"
#include "server/api/messages/target_validation.h"
#include "server/api/page_token.h"
#include "server/api/query_validation.h"
#include "server/api/request_validation.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/wire_check.h"
#include "tests/fuzz/target.h"

namespace {

namespace api = duetime::api;
namespace rpc = duetime::rpc;
namespace v1 = duetime::v1;

constexpr uint64_t kNowMs = 1'700'000'000'000;

rpc::WireSummary Walk(const std::string& bytes, const google::protobuf::Descriptor* type) {
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return rpc::CheckWire(&input, type);
}

// Walks the bytes and parses them. A message that parses must be well-formed after it is
// serialized.
template <typename T>
bool Parse(const std::string& bytes, T* message, rpc::WireSummary* summary) {
  *summary = Walk(bytes, T::GetDescriptor());
  if (!message->ParseFromString(bytes)) return false;
  const rpc::WireSummary again = Walk(message->SerializeAsString(), T::GetDescriptor());
  DT_CHECK(again.well_formed);
  return summary->well_formed;
}

// Checks that a refusal is an INVALID_ARGUMENT with a reason.
bool Accepted(const absl::Status& status) {
  if (status.ok()) return true;
  DT_CHECK(absl::IsInvalidArgument(status));
  DT_CHECK(duetime::base::GetErrorDetail(status).has_value());
  DT_CHECK(!duetime::base::GetErrorDetail(status)->reason.empty());
  return false;
}

void CheckSchedule(const v1::ScheduleRequest& request, int index) {
  const api::RequestLimits limits;
  api::ValidSchedule valid;
  if (!Accepted(api::ValidateSchedule(request, limits, kNowMs, index, &valid))) return;
  DT_CHECK(!valid.topic.empty() && valid.topic.size() <= api::kTopicBytesMax);
  DT_CHECK_LE(valid.attributes.size(), limits.attributes_max);
  DT_CHECK_LE(valid.when.deliver_ms, kNowMs + limits.horizon_ms);
  static_cast<void>(api::FingerprintOf(request));
  if (valid.plain) {
    DT_CHECK(valid.routing_name().empty() && !valid.needs_options());
    return;
  }
  DT_CHECK_LE(valid.labels.size(), limits.labels_max);
  DT_CHECK(valid.key.size() <= api::kKeyBytesMax && valid.ttl_ms <= limits.horizon_ms);
  DT_CHECK(valid.key.empty() || valid.ordering_key.empty() || valid.key == valid.ordering_key);
  DT_CHECK_LE(valid.when.deliver_ms + valid.spread_ms, kNowMs + limits.horizon_ms);
}

void CheckBatch(const std::string& bytes) {
  v1::ScheduleBatchRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  DT_CHECK_EQ(summary.elements, static_cast<size_t>(request.messages_size()));
  for (int i = 0; i < request.messages_size(); ++i) CheckSchedule(request.messages(i), i);
}

void CheckSubscribe(const std::string& bytes) {
  v1::SubscribeRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  const auto items = static_cast<size_t>(request.settlements_size() + request.begun_size());
  DT_CHECK_EQ(summary.elements, items);
  api::ValidStart start;
  if (Accepted(api::ValidateStart(request.start(), {}, &start))) {
    // 0: the subscription's lease duration.
    DT_CHECK(start.lease_ms == 0 || start.lease_ms >= api::kLeaseMsMin);
    DT_CHECK_LE(start.lease_ms, api::kLeaseMsMax);
    DT_CHECK_GT(start.max_outstanding_messages, 0);
    DT_CHECK_GT(start.max_outstanding_bytes, 0);
  }
  api::RoutedSettles routed;
  api::RouteSettles(request, duetime::protocol::StreamId{1}, 3, &routed);
  size_t posted = 0;
  for (const auto& command : routed.by_shard) {
    posted += command.begun.size() + command.settlements.size();
  }
  DT_CHECK_EQ(posted, routed.posted);
  DT_CHECK_EQ(posted + routed.refused.size(), items);
}

void CheckTarget(const api::ValidTarget& target) {
  if (target.key.empty()) return;
  DT_CHECK(!target.topic.empty() && target.topic.size() <= api::kTopicBytesMax);
  DT_CHECK_LE(target.key.size(), api::kKeyBytesMax);
}

void CheckTargets(const std::string& bytes) {
  rpc::WireSummary summary;
  api::ValidTarget target;
  if (v1::CancelRequest cancel; Parse(bytes, &cancel, &summary)) {
    if (Accepted(api::ValidateTarget(cancel, api::kSingle, &target))) {
      CheckTarget(target);
      DT_CHECK(!target.key.empty() || target.id.ToString() == cancel.message_id());
    }
  }
  if (v1::GetRequest get; Parse(bytes, &get, &summary)) {
    bool full = false;
    Accepted(api::ValidateView(get.view(), &full));
    if (Accepted(api::ValidateTarget(get, &target))) CheckTarget(target);
  }
}

void CheckReschedule(const std::string& bytes) {
  v1::RescheduleRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  api::ValidReschedule valid;
  const api::RequestLimits limits;
  if (!Accepted(api::ValidateReschedule(request, limits, kNowMs, &valid))) return;
  CheckTarget(valid.target);
  DT_CHECK_LE(valid.when.deliver_ms, kNowMs + limits.horizon_ms);
  DT_CHECK(request.etag().empty() == !valid.etag.has_value());
}

void CheckCancelBatch(const std::string& bytes) {
  v1::CancelBatchRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  DT_CHECK_EQ(summary.elements, static_cast<size_t>(request.cancels_size()));
  api::ValidTarget target;
  for (int i = 0; i < request.cancels_size(); ++i) {
    if (Accepted(api::ValidateTarget(request.cancels(i), i, &target))) CheckTarget(target);
  }
}

void CheckList(const std::string& bytes) {
  v1::ListRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  api::ValidList valid;
  if (!Accepted(api::ValidateList(request, {}, &valid))) return;
  DT_CHECK(valid.page_size >= 1 && valid.page_size <= api::kPageSizeMax);
  // The token of the next page must be accepted with the same filter.
  request.set_page_token(api::MakePageToken(valid.token_filter, {.place = {}, .key = "k"}));
  api::ValidList next;
  DT_CHECK(api::ValidateList(request, {}, &next).ok());
  DT_CHECK(next.from.key == "k");
}

void CheckForecast(const std::string& bytes) {
  v1::ForecastRequest request;
  rpc::WireSummary summary;
  if (!Parse(bytes, &request, &summary)) return;
  api::ValidForecast valid;
  if (!Accepted(api::ValidateForecast(request, kNowMs, &valid))) return;
  DT_CHECK_EQ(valid.range.start_ms % valid.range.bucket_ms, 0u);
  DT_CHECK(valid.range.buckets >= 1 && valid.range.buckets <= api::kForecastBucketsMax);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);
  const std::string bytes(data + 1, data + size);
  switch (data[0] % 8) {
    case 0: {
      v1::ScheduleRequest request;
      rpc::WireSummary summary;
      if (Parse(bytes, &request, &summary)) CheckSchedule(request, api::kSingle);
      break;
    }
    case 1:
      CheckBatch(bytes);
      break;
    case 2:
      CheckSubscribe(bytes);
      break;
    case 3:
      CheckTargets(bytes);
      break;
    case 4:
      CheckReschedule(bytes);
      break;
    case 5:
      CheckCancelBatch(bytes);
      break;
    case 6:
      CheckList(bytes);
      break;
    default:
      CheckForecast(bytes);
      break;
  }
  return 0;
}
