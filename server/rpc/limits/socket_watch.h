// SPDX-License-Identifier: Apache-2.0
//
// SocketWatch: what gRPC reads from its connections passes a FrameBudget.
#pragma once

#include <grpcpp/server_builder.h>
#include <memory>

#include "server/rpc/connection_cuts.h"
#include "server/rpc/limits/frame_budget.h"
#include "server/rpc/limits/request_watchdog.h"

namespace duetime::rpc {

using ConnectionAcceptor = grpc::experimental::ExternalConnectionAcceptor;

// The limits of connections, and where to report those that exceed them.
struct WatchTerms {
  FrameBudget::Limits limits;
  std::shared_ptr<ConnectionCuts> cuts;
  std::shared_ptr<RequestWatchdog> watchdog;
};

// Reports a connection that must be closed.
void ReportExcess(const WatchTerms& terms, int fd, FrameBudget::Excess excess);

// Returns an acceptor that passes connections to `acceptor`, and from then on closes each one that
// exceeds its limits. REQUIRES: they carry plain HTTP/2,
// because TLS hides the frames from the socket (see tls_watch.h).
//
// gRPC 1.51 offers no hook for the bytes of a connection, and a relay would copy each of them twice
// more. But gRPC reads sockets with recvmsg, so this program defines recvmsg: it calls the system's
// and looks at the result if the socket is watched. This function stops the process if shared
// libraries do not find our recvmsg. A test with a hostile client fails if gRPC ever reads in
// another way. Cost: for each read a lock and a system call, less than a microsecond.
std::unique_ptr<ConnectionAcceptor> WatchConnections(std::unique_ptr<ConnectionAcceptor> acceptor,
                                                     const WatchTerms& terms);

}  // namespace duetime::rpc
