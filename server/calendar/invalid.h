// SPDX-License-Identifier: Apache-2.0
//
// The errors of this room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::calendar {

// INVALID_ARGUMENT with this reason. `field`: the path of the invalid field, which the metadata has
// too; or empty.
absl::Status Invalid(absl::string_view reason, absl::string_view field, absl::string_view message,
                     std::vector<std::pair<std::string, std::string>> metadata);

}  // namespace duetime::calendar
