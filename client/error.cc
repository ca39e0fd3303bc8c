// SPDX-License-Identifier: Apache-2.0
#include "client/error.h"

#include <grpcpp/support/status.h>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/convert.h"

namespace duetime::client {
namespace {

// The payload holds a serialised google.rpc.Status, as gRPC's trailer does.
constexpr char kDetailsUrl[] = "type.googleapis.com/google.rpc.Status";

absl::Status WithDetails(int code, const std::string& message, const std::string& details) {
  if (code == 0) return absl::OkStatus();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      message);
  if (!details.empty()) status.SetPayload(kDetailsUrl, absl::Cord(details));
  return status;
}

}  // namespace

absl::Status ToAbslStatus(const grpc::Status& status) {
  return WithDetails(static_cast<int>(status.error_code()), status.error_message(),
                     status.error_details());
}

absl::Status ToAbslStatus(const google::rpc::Status& status) {
  return WithDetails(status.code(), status.message(), status.SerializeAsString());
}

ErrorInfo GetErrorInfo(const absl::Status& status) {
  ErrorInfo info;
  const auto payload = status.GetPayload(kDetailsUrl);
  google::rpc::Status details;
  // Bytes that are no google.rpc.Status give no details. Code and text remain.
  if (!payload.has_value() || !details.ParseFromString(std::string(*payload))) return info;
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo error_info;
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry_info;
    if (any.UnpackTo(&error_info)) {
      info.reason = error_info.reason();
      info.domain = error_info.domain();
      info.metadata.insert(error_info.metadata().begin(), error_info.metadata().end());
    } else if (any.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        info.field_violations.push_back({violation.field(), violation.description()});
      }
    } else if (any.UnpackTo(&retry_info)) {
      info.retry_delay = FromProto(retry_info.retry_delay());
    }
  }
  return info;
}

}  // namespace duetime::client
