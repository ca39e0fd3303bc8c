// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/http_gate.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/console/http_error.h"

namespace duetime::cli {
namespace {

using absl::StatusCode;

constexpr size_t kPathBytesMax = 1'024;

Refusal Refuse(int http_status, StatusCode code, absl::string_view reason,
               absl::string_view message) {
  return {http_status, MakeError(code, reason, message)};
}

// The value of a header that may appear at most once; nullopt if it appears more often.
std::optional<std::string> OneValue(const httplib::Request& request, const char* name) {
  if (request.get_header_value_count(name) > 1) return std::nullopt;
  return request.get_header_value(name);
}

// "application/json", perhaps with a charset.
bool IsJson(absl::string_view content_type) {
  const absl::string_view type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), "application/json");
}

}  // namespace

bool HttpGate::IsOurs(absl::string_view host) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [host](const std::string& ours) {
    return absl::EqualsIgnoreCase(host, ours);
  });
}

std::optional<Refusal> HttpGate::Check(const httplib::Request& request) const {
  const std::optional<std::string> host = OneValue(request, "Host");
  if (!host.has_value() || !IsOurs(*host)) {
    return Refuse(403, StatusCode::kPermissionDenied, "FOREIGN_HOST",
                  absl::StrCat("open the console as ", scheme_, hosts_.front(), "/"));
  }
  if (request.has_header("Origin")) {
    const std::optional<std::string> origin = OneValue(request, "Origin");
    absl::string_view name = origin.has_value() ? absl::string_view(*origin) : "";
    if (!absl::ConsumePrefix(&name, scheme_) || !IsOurs(name)) {
      return Refuse(403, StatusCode::kPermissionDenied, "FOREIGN_ORIGIN",
                    "the request comes from another site");
    }
  }
  if (request.method != "GET" && request.method != "HEAD" && request.method != "POST") {
    return Refuse(405, StatusCode::kUnimplemented, "METHOD_NOT_ALLOWED", "GET or POST only");
  }
  if (request.path.size() > kPathBytesMax) {
    return Refuse(414, StatusCode::kInvalidArgument, "PATH_TOO_LONG", "the path has over 1 KiB");
  }
  if (!request.ranges.empty()) {
    return Refuse(400, StatusCode::kInvalidArgument, "RANGE_UNKNOWN",
                  "the console serves no ranges");
  }
  if (request.method == "POST") return CheckPost(request);
  return std::nullopt;
}

std::optional<Refusal> HttpGate::CheckPost(const httplib::Request& request) const {
  const std::optional<std::string> type = OneValue(request, "Content-Type");
  if (!type.has_value() || !IsJson(*type)) {
    return Refuse(415, StatusCode::kInvalidArgument, "NOT_JSON",
                  "the Content-Type must be application/json");
  }
  if (!request.has_header(kConsoleHeader)) {
    return Refuse(403, StatusCode::kPermissionDenied, "HEADER_MISSING",
                  absl::StrCat("a call needs the header ", kConsoleHeader));
  }
  // A compressed body, or one in chunks, could grow beyond the limit unnoticed.
  if (request.has_header("Transfer-Encoding") || request.has_header("Content-Encoding")) {
    return Refuse(415, StatusCode::kInvalidArgument, "ENCODING_UNKNOWN",
                  "send the body uncompressed and in one piece");
  }
  const std::optional<std::string> length = OneValue(request, "Content-Length");
  uint64_t bytes = 0;
  if (!length.has_value() || !absl::SimpleAtoi(*length, &bytes)) {
    return Refuse(411, StatusCode::kInvalidArgument, "LENGTH_MISSING",
                  "a call needs a Content-Length");
  }
  if (bytes > kBodyBytesMax) {
    return Refuse(413, StatusCode::kInvalidArgument, "BODY_TOO_LARGE", "the body has over 2 MiB");
  }
  return std::nullopt;
}

}  // namespace duetime::cli
