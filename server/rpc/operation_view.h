// SPDX-License-Identifier: Apache-2.0
//
// Bulk operations in the API's form.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/delivery/operation.h"
#include "server/rpc/request_validation.h"

namespace duetime::rpc {

inline constexpr size_t kOperationNameBytesMax = 63;

// The parts of all shards as one.
delivery::Operation Merge(const std::vector<delivery::Operation>& parts);

void FillOperation(const delivery::Operation& operation, absl::string_view topic,
                   v1::Operation* proto);

// INVALID_OPERATION_NAME.
absl::Status ValidateOperationName(const std::string& name, const std::string& field);

// INVALID_TOPIC, INVALID_FILTER, INVALID_LABELS, INVALID_KEY, INVALID_ACTION,
// INVALID_OPERATION_NAME. Leaves the topic's id as it is.
absl::Status ValidateBulk(const v1::StartBulkRequest& request, const RequestLimits& limits,
                          delivery::OperationSpec* spec);

}  // namespace duetime::rpc
