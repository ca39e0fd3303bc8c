// SPDX-License-Identifier: Apache-2.0
//
// The credentials of TCP connections.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <memory>

#include "absl/status/statusor.h"

#include "server/rpc/grpc_server_options.h"

namespace duetime::rpc {

// Returns TLS credentials if a certificate is configured, else plaintext. If a client CA is
// configured, TLS requires and verifies client certificates. INVALID_ARGUMENT if a file cannot be
// read or the options do not fit together. Reads the files once, so a new certificate needs a
// restart.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTcpCredentials(
    const GrpcServerOptions& options);

}  // namespace duetime::rpc
