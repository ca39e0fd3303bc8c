// SPDX-License-Identifier: Apache-2.0
#include "server/calendar/invalid.h"

#include "server/base/error.h"

namespace duetime::calendar {

absl::Status Invalid(absl::string_view reason, absl::string_view field, absl::string_view message,
                     std::vector<std::pair<std::string, std::string>> metadata) {
  if (!field.empty()) metadata.emplace_back("field", field);
  return base::MakeError(absl::StatusCode::kInvalidArgument, message,
                         {.reason = std::string(reason),
                          .field = std::string(field),
                          .metadata = std::move(metadata),
                          .retry_after_ms = 0});
}

}  // namespace duetime::calendar
