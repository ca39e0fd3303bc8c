// SPDX-License-Identifier: Apache-2.0
//
// Turns the daemon's errors into gRPC's: the canonical code, and the machine-readable details of
// AIP-193.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace duetime::rpc {

// The error as a google.rpc.Status. It always has one ErrorInfo {reason, domain "duetime",
// metadata}. It has a BadRequest if a field caused the error, and a RetryInfo if a retry can help.
// If base::MakeError did not make the error, the reason is the name of the code.
void ToRpcStatus(const absl::Status& status, google::rpc::Status* rpc_status);

// The same for the trailers of a call: grpc-status-details-bin carries the details. OK gives OK.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace duetime::rpc
