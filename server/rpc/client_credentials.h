// SPDX-License-Identifier: Apache-2.0
//
// What a client shows of itself.
#pragma once

#include <grpcpp/server_context.h>
#include <string>

#include "server/access/access_control.h"

namespace duetime::rpc {

// The credentials of a call: the token of its "authorization: Bearer TOKEN", the names of the
// verified client certificate (its URIs, its DNS names, its common name, in this order) and itself,
// the user of a Unix socket, and the peer. REQUIRES: the call has arrived.
access::Credentials CredentialsOf(const grpc::ServerContext& context);

// The client's address without its port: "10.0.0.7", "2001:db8::7" or "unix". For logs.
std::string PeerHost(const grpc::ServerContext& context);
// The same with its port: "10.0.0.7:50321", "[2001:db8::7]:50321" or "unix".
std::string PeerAddress(const grpc::ServerContext& context);

}  // namespace duetime::rpc
