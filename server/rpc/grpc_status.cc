// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_status.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "server/base/error.h"

namespace duetime::rpc {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status rpc_status;
  rpc_status.set_code(static_cast<int32_t>(status.code()));
  rpc_status.set_message(std::string(status.message()));
  base::ErrorDetail detail;
  if (auto made = base::GetErrorDetail(status); made.has_value()) {
    detail = *std::move(made);
  } else {
    detail.reason = absl::StatusCodeToString(status.code());
  }
  google::rpc::ErrorInfo info;
  info.set_reason(detail.reason);
  info.set_domain("duetime");
  for (const auto& [key, value] : detail.metadata) (*info.mutable_metadata())[key] = value;
  rpc_status.add_details()->PackFrom(info);
  if (!detail.field.empty()) {
    google::rpc::BadRequest bad_request;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(detail.field);
    violation->set_description(std::string(status.message()));
    rpc_status.add_details()->PackFrom(bad_request);
  }
  if (detail.retry_after_ms != 0) {
    google::rpc::RetryInfo retry;
    constexpr uint64_t kNanosPerMs = 1'000'000;
    retry.mutable_retry_delay()->set_seconds(static_cast<int64_t>(detail.retry_after_ms / 1'000));
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(detail.retry_after_ms % 1'000 * kNanosPerMs));
    rpc_status.add_details()->PackFrom(retry);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), rpc_status.message(),
                      rpc_status.SerializeAsString());
}

}  // namespace duetime::rpc
