// SPDX-License-Identifier: Apache-2.0
//
// Errors as the API tells them: a canonical code, a stable reason for programs, and the variable
// parts as metadata. They travel inside an absl::Status as payloads, so every room can make one and
// only server/rpc turns it into gRPC's form.
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
  // Path of the request field that is to blame, or empty.
  std::string field;
  // Every variable part of the message text, by name.
  std::vector<std::pair<std::string, std::string>> metadata;
  // When to try again, or 0 if trying again does not help.
  uint64_t retry_after_ms = 0;
};

// Makes an error of `code` with the text `message` for people and `detail` for programs. REQUIRES:
// code is not kOk.
absl::Status MakeError(absl::StatusCode code, absl::string_view message, const ErrorDetail& detail);

// The detail of an error made by MakeError, or nothing.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// The errors that more than one room makes.
absl::Status OverloadedError(absl::string_view queue, uint64_t limit);
absl::Status DrainingError();
absl::Status StorageFailedError();

}  // namespace duetime::base
