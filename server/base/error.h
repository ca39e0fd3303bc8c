// SPDX-License-Identifier: Apache-2.0
//
// Errors of the API: a canonical code, a stable reason for programs, and the variable parts as
// metadata. The payload of an absl::Status carries reason and metadata. Every room can make such an
// error; only server/api converts it to gRPC's form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::base {

// The machine-readable part of an error.
struct ErrorDetail {
  // UPPER_SNAKE_CASE, stable: DELIVER_TIME_OUT_OF_RANGE, OVERLOADED ...
  std::string reason;
  // The path of the invalid request field, or empty.
  std::string field;
  // Every variable part of the message, by name.
  std::vector<std::pair<std::string, std::string>> metadata;
  // The delay before a retry. 0: a retry does not help.
  uint64_t retry_after_ms = 0;
};

// Makes an error with `message` for people and `detail` for programs. REQUIRES: code is not kOk.
absl::Status MakeError(absl::StatusCode code, absl::string_view message, const ErrorDetail& detail);

// The detail of an error made by MakeError; nullopt for other errors.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// The errors that more than one room makes.
absl::Status OverloadedError(absl::string_view queue, uint64_t limit);
absl::Status DrainingError();
absl::Status StreamEndedError();
absl::Status StorageFailedError();

}  // namespace duetime::base
