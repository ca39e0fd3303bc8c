// SPDX-License-Identifier: Apache-2.0
//
// The errors with which a shard refuses to create or change a recurrence. Errors that several rooms
// return are not here.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/protocol/recurrence_state.h"

namespace duetime::recurrences {

absl::Status RecurrenceMismatchError(const std::string& name);
absl::Status RecurrenceEtagError(const protocol::RecurrenceState& state);
// `completed`: how many of those that count have completed.
absl::Status RecurrenceLimitError(absl::string_view what, size_t limit, size_t completed);
absl::Status NoOccurrenceError();

}  // namespace duetime::recurrences
