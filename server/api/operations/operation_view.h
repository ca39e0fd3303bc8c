// SPDX-License-Identifier: Apache-2.0
//
// Bulk operations in the API's form.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/request_validation.h"
#include "server/protocol/operation.h"

namespace duetime::api {

inline constexpr size_t kOperationNameBytesMax = 63;

// An operation of all shards.
struct WholeOperation {
  // The sums. Its state does not say that the operation is starting.
  protocol::Operation sum;
  // The start may not have reached all places: the missing shards, or cells that the server does
  // not know.
  bool starting = false;
  std::vector<uint16_t> missing;
  // A part was stopped. If the sum is running, the stop has not reached all shards.
  bool stopped = false;
};

// Merges the parts of all shards. REQUIRES: there is a part.
WholeOperation Merge(const protocol::OperationParts& parts, uint16_t shard_count);

void FillOperation(const WholeOperation& operation, absl::string_view topic, v1::Operation* proto);

// INVALID_OPERATION_NAME.
absl::Status ValidateOperationName(const std::string& name, const std::string& field);

// INVALID_TOPIC, INVALID_FILTER, INVALID_LABELS, INVALID_KEY, INVALID_ACTION,
// INVALID_OPERATION_NAME. Does not set the topic's id.
absl::Status ValidateBulk(const v1::StartBulkRequest& request, const RequestLimits& limits,
                          protocol::OperationSpec* spec);

}  // namespace duetime::api
