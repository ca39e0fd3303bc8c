// SPDX-License-Identifier: Apache-2.0
//
// Requests: any bytes to look at, to parse and to validate.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "duetime/v1/messages.pb.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/request_validation.h"
#include "server/rpc/wire_check.h"
#include "tests/fuzz/target.h"

namespace {

namespace rpc = duetime::rpc;
namespace v1 = duetime::v1;

constexpr uint64_t kNowMs = 1'700'000'000'000;

rpc::WireSummary Walk(const std::string& bytes, const google::protobuf::Descriptor* type) {
  google::protobuf::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  return rpc::CheckWire(&input, type);
}

// Looks at the bytes and parses them. What the walk finds must be what the parser found.
template <typename T>
bool Parse(const std::string& bytes, T* message, rpc::WireSummary* summary) {
  *summary = Walk(bytes, T::GetDescriptor());
  if (!message->ParseFromString(bytes)) return false;
  const rpc::WireSummary again = Walk(message->SerializeAsString(), T::GetDescriptor());
  DT_CHECK(again.well_formed);
  return summary->well_formed;
}

// A refusal is an INVALID_ARGUMENT with a reason.
bool Accepted(const absl::Status& status) {
  if (status.ok()) return true;
  DT_CHECK(absl::IsInvalidArgument(status));
  DT_CHECK(duetime::base::GetErrorDetail(status).has_value());
  DT_CHECK(!duetime::base::GetErrorDetail(status)->reason.empty());
  return false;
}

void CheckSchedule(const v1::ScheduleRequest& request, int index) {
  const rpc::RequestLimits limits;
  rpc::ValidSchedule valid;
  if (!Accepted(rpc::ValidateSchedule(request, limits, kNowMs, index, &valid))) return;
  DT_CHECK(!valid.topic.empty() && valid.topic.size() <= rpc::kTopicBytesMax);
  DT_CHECK_LE(valid.attributes.size(), limits.attributes_max);
  DT_CHECK_LE(valid.deliver_ms, kNowMs + limits.horizon_ms);
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
  const auto items = static_cast<size_t>(request.nack_size() + request.extend_size());
  DT_CHECK_EQ(summary.elements, items);
  rpc::ValidStart start;
  if (Accepted(rpc::ValidateStart(request.start(), {}, &start))) {
    DT_CHECK(start.lease_ms >= rpc::kLeaseMsMin && start.lease_ms <= rpc::kLeaseMsMax);
    DT_CHECK_GT(start.max_outstanding_messages, 0);
    DT_CHECK_GT(start.max_outstanding_bytes, 0);
  }
  rpc::RoutedSettles routed;
  rpc::RouteSettles(request, duetime::delivery::StreamId{1}, 3, &routed);
  size_t posted = 0;
  for (const auto& command : routed.by_shard) {
    posted += command.acks.size() + command.nacks.size() + command.extends.size();
  }
  DT_CHECK_EQ(posted, routed.posted);
  DT_CHECK_EQ(posted + routed.refused.size(), items + static_cast<size_t>(request.ack_size()));
}

void CheckTargets(const std::string& bytes) {
  rpc::WireSummary summary;
  duetime::storage::MessageId id;
  if (v1::CancelRequest cancel; Parse(bytes, &cancel, &summary)) {
    if (Accepted(rpc::ValidateCancel(cancel, &id))) DT_CHECK(id.ToString() == cancel.message_id());
  }
  rpc::ValidGet valid;
  if (v1::GetRequest get; Parse(bytes, &get, &summary)) Accepted(rpc::ValidateGet(get, &valid));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  google::protobuf::SetLogHandler(nullptr);
  const std::string bytes(data + 1, data + size);
  switch (data[0] % 4) {
    case 0: {
      v1::ScheduleRequest request;
      rpc::WireSummary summary;
      if (Parse(bytes, &request, &summary)) CheckSchedule(request, rpc::kSingle);
      break;
    }
    case 1:
      CheckBatch(bytes);
      break;
    case 2:
      CheckSubscribe(bytes);
      break;
    default:
      CheckTargets(bytes);
      break;
  }
  return 0;
}
