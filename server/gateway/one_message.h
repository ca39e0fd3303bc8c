// SPDX-License-Identifier: Apache-2.0
//
// Bulk operations on one message. Each cell has its part of an operation, but one of them has the
// message.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"

#include "duetime/v1/operation.pb.h"
#include "server/gateway/cell_map.h"

namespace duetime::gateway {

// The request for each cell of the map. If the filter has an id, the cell of the id gets its own
// text of it. The others get that text, too, and the client's as the beginning of the key: no
// message of theirs has both, and their answers say which message was meant. INVALID_FILTER.
absl::StatusOr<std::vector<v1::StartBulkRequest>> RequestsOfCells(
    const CellMap& map, const v1::StartBulkRequest& request);

// The reverse, for the filter in an answer of this cell, in which the id is tagged. False if the
// cell has the message, so that its filter is the client's. Else the filter has the client's id,
// and no beginning of the key.
bool RestoreFilter(const CellMap& map, size_t cell, v1::BulkFilter* filter);

}  // namespace duetime::gateway
