// SPDX-License-Identifier: Apache-2.0
//
// Turns the daemon's errors into gRPC's: the canonical code, and the machine-readable details of
// AIP-193.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace duetime::rpc {

// The error of a call. OK gives OK. grpc-status-details-bin carries a google.rpc.Status, which
// always has one ErrorInfo {reason, domain "duetime", metadata}. It has a BadRequest if a field
// caused the error, and a RetryInfo if a retry can help. If base::MakeError did not make the error,
// the reason is the name of the code.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace duetime::rpc
