// SPDX-License-Identifier: Apache-2.0
//
// Converts results of items of a batch or stream to results of single calls. Internal to the client
// library.
#pragma once

#include "absl/status/statusor.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// The error of an item without a result. Never OK: an item without result and error is INTERNAL.
absl::Status ItemError(const v1::Failure& error);

// The result that a Schedule of this item alone would return.
absl::StatusOr<v1::ScheduleResponse> FromProto(v1::ScheduleResult result);

}  // namespace duetime::client
