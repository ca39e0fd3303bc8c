// SPDX-License-Identifier: Apache-2.0
//
// From the daemon's errors to gRPC's: the canonical code, and the machine-readable details of
// AIP-193.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace duetime::rpc {

// The error as a google.rpc.Status: one ErrorInfo {reason, domain "duetime", metadata} always, a
// BadRequest if a field is to blame, a RetryInfo if trying again helps. An error that
// base::MakeError did not make has its code's name as reason.
void ToRpcStatus(const absl::Status& status, google::rpc::Status* rpc_status);

// The same for the trailers of a call: the details travel as grpc-status-details-bin. OK gives OK.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace duetime::rpc
