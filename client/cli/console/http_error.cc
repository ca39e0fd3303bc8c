// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/http_error.h"

#include "client/cpp/error.h"
#include "duetime/v1/failure.pb.h"

namespace duetime::cli {

absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message) {
  v1::Failure failure;
  failure.set_code(static_cast<int>(code));
  failure.set_reason(std::string(reason));
  failure.set_message(std::string(message));
  return client::ToAbslStatus(failure);
}

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

}  // namespace duetime::cli
