// SPDX-License-Identifier: Apache-2.0
//
// How TCP connections are secured.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <memory>

#include "absl/status/statusor.h"

#include "server/rpc/grpc_server_options.h"

namespace duetime::rpc {

// TLS if a certificate is configured, with client certificates required and verified if a client CA
// is; else plaintext. INVALID_ARGUMENT if a file cannot be read or the options do not fit together.
// The files are read here, once: a new certificate takes a restart.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTcpCredentials(
    const GrpcServerOptions& options);

}  // namespace duetime::rpc
