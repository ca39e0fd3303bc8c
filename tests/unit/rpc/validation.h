// SPDX-License-Identifier: Apache-2.0
//
// What the tests of validation share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "server/base/error.h"

namespace duetime::rpc {

// The wall time of requests.
inline constexpr uint64_t kNow = 1'700'000'000'000;

inline std::string ReasonOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() ? detail->reason : "NO DETAIL";
}

// The reason and the field.
inline std::string RefusalOf(const absl::Status& status) {
  if (status.ok()) return "OK";
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() ? detail->reason + " " + detail->field : "NO DETAIL";
}

// An update of settings with a mask. The texts are settings of the protos.
struct MaskCase {
  const char* name;
  // The settings before, and those of the request.
  const char* before;
  const char* given;
  std::vector<std::string> paths;
  // The settings after the update, or the refusal.
  const char* after;
};

}  // namespace duetime::rpc
