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

// Merges the parts of all shards into one operation.
protocol::Operation Merge(const std::vector<protocol::Operation>& parts);

void FillOperation(const protocol::Operation& operation, absl::string_view topic,
                   v1::Operation* proto);

// INVALID_OPERATION_NAME.
absl::Status ValidateOperationName(const std::string& name, const std::string& field);

// INVALID_TOPIC, INVALID_FILTER, INVALID_LABELS, INVALID_KEY, INVALID_ACTION,
// INVALID_OPERATION_NAME. Does not set the topic's id.
absl::Status ValidateBulk(const v1::StartBulkRequest& request, const RequestLimits& limits,
                          protocol::OperationSpec* spec);

}  // namespace duetime::api
