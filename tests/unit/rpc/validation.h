// SPDX-License-Identifier: Apache-2.0
//
// What the tests of validation share.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace duetime::rpc
