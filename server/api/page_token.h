// SPDX-License-Identifier: Apache-2.0
//
// Page tokens: the start of the next page, in a text that clients only hand back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/query/list_query.h"

namespace duetime::api {

// Makes a token for the start of a page. A token belongs to one request: `filter` is a text of all
// its fields except the page's size and token. The token has a version byte, a hash over `filter`
// and the following fields, the place (due time and id), and the key or name, in web-safe base64.
// The hash detects accidental changes. A client that forges a token only lists from another place.
std::string MakePageToken(absl::string_view filter, const query::ListPosition& position);

// nullopt if MakePageToken did not make the token with this filter.
std::optional<query::ListPosition> ReadPageToken(absl::string_view token, absl::string_view filter);

}  // namespace duetime::api
