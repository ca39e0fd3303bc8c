// SPDX-License-Identifier: Apache-2.0
//
// Errors of the server as an absl::Status with the server's code and text. GetErrorInfo reads the
// details.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Status;
}
namespace duetime::v1 {
class Failure;
}

namespace duetime::client {

// One request field that the server refused.
struct FieldViolation {
  // Path to the field, such as `messages[3].topic`.
  std::string field;
  std::string description;
};

// The machine-readable part of an error.
struct ErrorInfo {
  // UPPER_SNAKE_CASE and stable, for example OVERLOADED. Empty when the error did not come from a
  // duetime server: a connection that failed, a deadline that passed.
  std::string reason;
  // "duetime", or empty as above.
  std::string domain;
  // Every variable part of the text, by name.
  std::map<std::string, std::string> metadata;
  std::vector<FieldViolation> field_violations;
  // The delay that the server requests before the next try. Absent if it requests none.
  std::optional<absl::Duration> retry_delay;
};

// The details of an error that this library returned. Empty for any other status.
ErrorInfo GetErrorInfo(const absl::Status& status);

// Converts the status of a call. Keeps the details for GetErrorInfo.
absl::Status ToAbslStatus(const grpc::Status& status);

// Converts the error of one item of a batch. Keeps the details for GetErrorInfo. An invalid code
// becomes UNKNOWN.
absl::Status ToAbslStatus(const v1::Failure& failure);

}  // namespace duetime::client
