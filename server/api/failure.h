// SPDX-License-Identifier: Apache-2.0
//
// Turns an error into the Failure of an item or an operation.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/failure.pb.h"

namespace duetime::api {

// Overwrites `failure` with the error: the parts that rpc::ToGrpcStatus puts into the status of a
// call. REQUIRES: the error is not OK.
void FillFailure(const absl::Status& error, v1::Failure* failure);

}  // namespace duetime::api
