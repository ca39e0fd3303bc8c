// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/error.h"

#include <grpcpp/support/status.h>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/cpp/convert.h"
#include "duetime/v1/failure.pb.h"

namespace duetime::client {
namespace {

// The payload of a call's error is a serialised google.rpc.Status, as gRPC's trailer is. That of an
// item's error is a serialised Failure.
constexpr char kCallUrl[] = "type.googleapis.com/google.rpc.Status";
constexpr char kItemUrl[] = "type.googleapis.com/duetime.v1.Failure";

absl::Status WithDetails(int code, const std::string& message, const char* url,
                         const std::string& details) {
  if (code == 0) return absl::OkStatus();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      message);
  if (!details.empty()) status.SetPayload(url, absl::Cord(details));
  return status;
}

ErrorInfo InfoOf(const google::rpc::Status& details) {
  ErrorInfo info;
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

ErrorInfo InfoOf(const v1::Failure& failure) {
  ErrorInfo info;
  info.reason = failure.reason();
  info.domain = "duetime";
  info.metadata.insert(failure.metadata().begin(), failure.metadata().end());
  if (!failure.field().empty()) {
    info.field_violations.push_back({failure.field(), failure.message()});
  }
  if (failure.has_retry_delay()) info.retry_delay = FromProto(failure.retry_delay());
  return info;
}

// The details in a payload. Bytes that are no `Details` give none. Code and text remain.
template <typename Details>
std::optional<ErrorInfo> InfoIn(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  Details details;
  if (!payload.has_value() || !details.ParseFromString(std::string(*payload))) return std::nullopt;
  return InfoOf(details);
}

}  // namespace

absl::Status ToAbslStatus(const grpc::Status& status) {
  return WithDetails(static_cast<int>(status.error_code()), status.error_message(), kCallUrl,
                     status.error_details());
}

absl::Status ToAbslStatus(const v1::Failure& failure) {
  return WithDetails(failure.code(), failure.message(), kItemUrl, failure.SerializeAsString());
}

ErrorInfo GetErrorInfo(const absl::Status& status) {
  if (auto info = InfoIn<google::rpc::Status>(status, kCallUrl)) return *std::move(info);
  return InfoIn<v1::Failure>(status, kItemUrl).value_or(ErrorInfo());
}

}  // namespace duetime::client
