// SPDX-License-Identifier: Apache-2.0
#include "server/recurrences/recurrence_errors.h"

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/protocol/etag.h"

namespace duetime::recurrences {

absl::Status RecurrenceMismatchError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kAlreadyExists,
                         "there is a recurrence of this name with other content",
                         {.reason = "CONTENT_MISMATCH",
                          .field = "recurrence.name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

absl::Status RecurrenceEtagError(const protocol::RecurrenceState& state) {
  return base::MakeError(
      absl::StatusCode::kAborted, "the recurrence was changed since this etag was given",
      {.reason = "ETAG_MISMATCH",
       .field = "etag",
       .metadata = {{"name", state.name}, {"etag", absl::StrCat(protocol::EtagOf(state))}},
       .retry_after_ms = 0});
}

absl::Status RecurrenceLimitError(absl::string_view what, size_t limit, size_t completed) {
  std::string text = absl::StrCat("the limit of ", what, " is reached: ", limit);
  if (completed > 0) {
    absl::StrAppend(&text, "; recurrences that completed within request_retention: ", completed);
  }
  return base::MakeError(absl::StatusCode::kResourceExhausted, text,
                         {.reason = "RECURRENCE_LIMIT",
                          .field = "",
                          .metadata = {{"what", std::string(what)},
                                       {"limit", absl::StrCat(limit)},
                                       {"completed", absl::StrCat(completed)}},
                          .retry_after_ms = 0});
}

absl::Status NoOccurrenceError() {
  return base::MakeError(absl::StatusCode::kInvalidArgument, "the schedule has no occurrence ahead",
                         {.reason = "INVALID_RECURRENCE",
                          .field = "recurrence.schedule",
                          .metadata = {{"field", "recurrence.schedule"}},
                          .retry_after_ms = 0});
}

}  // namespace duetime::recurrences
