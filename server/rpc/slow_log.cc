// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/slow_log.h"

#include "absl/strings/str_cat.h"

namespace duetime::rpc {

std::optional<std::string> SlowLog::Line(const Call& call, uint64_t now_ms) {
  const std::optional<uint64_t> dropped = throttle_.Pass(call.method, 0, now_ms);
  if (!dropped.has_value()) return std::nullopt;
  std::string line = absl::StrCat("slow call: ", call.method, " took ", call.micros / kMicrosPerMs,
                                  " ms, ", absl::StatusCodeToString(call.code), ", from ");
  if (!call.principal.empty()) absl::StrAppend(&line, call.principal, " at ");
  absl::StrAppend(&line, call.peer);
  if (*dropped > 0) absl::StrAppend(&line, " (", *dropped, " more were left out)");
  return line;
}

}  // namespace duetime::rpc
