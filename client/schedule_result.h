// SPDX-License-Identifier: Apache-2.0
//
// Results of single items of a batch or stream, as single calls have them. Internal to the client
// library.
#pragma once

#include "absl/status/statusor.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// The error of an item that has no result; never OK: an item with neither is the server's mistake.
absl::Status ItemError(const google::rpc::Status& error);

// What a Schedule of its own would have returned.
absl::StatusOr<v1::ScheduleResponse> FromProto(v1::ScheduleResult result);

}  // namespace duetime::client
