// SPDX-License-Identifier: Apache-2.0
#include "server/api/failure.h"

#include <string>

#include "server/api/proto_time.h"
#include "server/base/error.h"

namespace duetime::api {

void FillFailure(const absl::Status& error, v1::Failure* failure) {
  failure->Clear();
  failure->set_code(static_cast<int32_t>(error.code()));
  failure->set_message(std::string(error.message()));
  const auto detail = base::GetErrorDetail(error);
  if (!detail.has_value()) {
    failure->set_reason(absl::StatusCodeToString(error.code()));
    return;
  }
  failure->set_reason(detail->reason);
  for (const auto& [key, value] : detail->metadata) (*failure->mutable_metadata())[key] = value;
  failure->set_field(detail->field);
  if (detail->retry_after_ms != 0) {
    SetDuration(detail->retry_after_ms, failure->mutable_retry_delay());
  }
}

}  // namespace duetime::api
