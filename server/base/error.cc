// SPDX-License-Identifier: Apache-2.0
#include "server/base/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/base/check.h"

namespace duetime::base {
namespace {

constexpr char kDetailUrl[] = "duetime/error-detail";
// Separates the parts of a packed detail. Validated text never contains it; Clean() removes it from
// other text.
constexpr char kSeparator = '\x1f';

std::string Clean(absl::string_view text) {
  std::string clean(text);
  for (char& c : clean) {
    if (c == kSeparator) c = '?';
  }
  return clean;
}

}  // namespace

absl::Status MakeError(absl::StatusCode code, absl::string_view message,
                       const ErrorDetail& detail) {
  DT_CHECK(code != absl::StatusCode::kOk);
  std::string packed =
      absl::StrCat(Clean(detail.reason), std::string(1, kSeparator), Clean(detail.field),
                   std::string(1, kSeparator), detail.retry_after_ms);
  for (const auto& [key, value] : detail.metadata) {
    absl::StrAppend(&packed, std::string(1, kSeparator), Clean(key), std::string(1, kSeparator),
                    Clean(value));
  }
  absl::Status status(code, message);
  status.SetPayload(kDetailUrl, absl::Cord(packed));
  return status;
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kDetailUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(std::string(*payload), kSeparator);
  DT_CHECK_GE(parts.size(), 3u);
  ErrorDetail detail{.reason = parts[0], .field = parts[1], .metadata = {}, .retry_after_ms = 0};
  DT_CHECK(absl::SimpleAtoi(parts[2], &detail.retry_after_ms));
  for (size_t i = 3; i + 1 < parts.size(); i += 2) {
    detail.metadata.emplace_back(parts[i], parts[i + 1]);
  }
  return detail;
}

absl::Status OverloadedError(absl::string_view queue, uint64_t limit) {
  return MakeError(absl::StatusCode::kResourceExhausted,
                   absl::StrCat("the ", queue, " is full (limit ", limit, "); try again shortly"),
                   {.reason = "OVERLOADED",
                    .field = "",
                    .metadata = {{"queue", std::string(queue)}, {"limit", absl::StrCat(limit)}},
                    .retry_after_ms = 100});
}

absl::Status DrainingError() {
  return MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                   {.reason = "DRAINING", .field = "", .metadata = {}, .retry_after_ms = 1000});
}

absl::Status StreamEndedError() {
  return MakeError(absl::StatusCode::kUnavailable, "an operator ended the stream",
                   {.reason = "STREAM_ENDED", .field = "", .metadata = {}, .retry_after_ms = 0});
}

absl::Status StorageFailedError() {
  return MakeError(
      absl::StatusCode::kUnavailable,
      "a write to the journal failed, and the outcome of this request is unknown; the server "
      "accepts nothing until it starts again or, in a cell, another member leads",
      {.reason = "STORAGE_FAILED", .field = "", .metadata = {}, .retry_after_ms = 5000});
}

}  // namespace duetime::base
