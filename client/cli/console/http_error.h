// SPDX-License-Identifier: Apache-2.0
//
// Errors of the console, in the form of the server's errors. Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::cli {

// An error with a reason for programs, as client::GetErrorInfo reads it.
absl::Status MakeError(absl::StatusCode code, absl::string_view reason, absl::string_view message);

// The status of HTTP for the error of a call.
int HttpStatusOf(absl::StatusCode code);

}  // namespace duetime::cli
