// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/one_message.h"

#include <string>

#include "server/api/validation_error.h"

namespace duetime::gateway {

absl::StatusOr<std::vector<v1::StartBulkRequest>> RequestsOfCells(
    const CellMap& map, const v1::StartBulkRequest& request) {
  std::vector<v1::StartBulkRequest> requests(map.size(), request);
  const std::string& id = request.filter().message_id();
  if (id.empty()) return requests;
  const auto located = map.Locate(id);
  if (!located.ok()) {
    return api::Invalid(
        "INVALID_FILTER", "filter.message_id",
        "through a gateway, an id begins with the name of a cell and a dot, as in \"a.06c...\"");
  }
  for (size_t cell = 0; cell < requests.size(); ++cell) {
    v1::BulkFilter& filter = *requests[cell].mutable_filter();
    filter.set_message_id(located->text);
    if (cell != located->cell) filter.set_key_prefix(id);
  }
  return requests;
}

bool RestoreFilter(const CellMap& map, size_t cell, v1::BulkFilter* filter) {
  const auto located = map.Locate(filter->key_prefix());
  if (!located.ok() || located->cell == cell ||
      map.Tag(cell, located->text) != filter->message_id()) {
    return false;
  }
  filter->set_message_id(filter->key_prefix());
  filter->clear_key_prefix();
  return true;
}

}  // namespace duetime::gateway
