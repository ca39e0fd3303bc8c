// SPDX-License-Identifier: Apache-2.0
//
// Page tokens: where a list goes on, in a text that clients only hand back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/query/list_query.h"

namespace duetime::api {

// A token says where to go on and belongs to one request: `filter` is a text of everything but the
// page's size and token. It is a version byte, a hash over all of it and the filter, the place
// (due time and id), and the key or name; in web-safe base64. The hash finds what was altered by
// mistake; who alters it on purpose only lists from another place.
std::string MakePageToken(absl::string_view filter, const query::ListPosition& position);

// Nothing if it is not a token of MakePageToken with this filter.
std::optional<query::ListPosition> ReadPageToken(absl::string_view token, absl::string_view filter);

}  // namespace duetime::api
