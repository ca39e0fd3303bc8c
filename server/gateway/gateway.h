// SPDX-License-Identifier: Apache-2.0
//
// Gateway: several cells behind one address.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "client/cpp/channel.h"
#include "server/gateway/gateway_context.h"
#include "server/rpc/grpc_server.h"

namespace duetime::gateway {

// Serves the API, and keeps nothing: every message, lease and setting is in a cell. Any number of
// gateways may have the same map. Clients see one server whose ids begin with the name of a cell.
//
// What differs from one server: a batch may be refused in part where one server refuses it as a
// whole; limits (max_pending, rates, quotas) count in each cell; each cell gets an equal share of a
// stream's credit; backups and HandOver are for a cell itself. The cells decide who may do what by
// the client's token; the gateway checks nothing.
class Gateway {
 public:
  struct Options {
    GatewayOptions gateway;
    rpc::GrpcServerOptions grpc;
    // How to call the cells, but for their addresses. The token is for the gateway's own calls.
    client::ServerAddress cells;
    std::string version;
    // As those of the cells.
    api::RequestLimits limits;
    size_t streams_max = 10'000;
    uint64_t heartbeat_ms = 15'000;
    uint64_t drain_grace_ms = 5'000;
  };

  // INVALID_ARGUMENT, NOT_FOUND: the map or a file is wrong. Opens nothing yet. `clock` and `stats`
  // outlive the gateway.
  static absl::StatusOr<std::unique_ptr<Gateway>> Create(const Options& options, base::Clock* clock,
                                                         metrics::RpcStats* stats);
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  // Binds every address. Serves once all cells have all topics and subscriptions, or after
  // three seconds, because some may be away. An error names the address that cannot be bound.
  absl::Status Listen();
  // Health becomes NOT_SERVING, subscribers get a DrainNotice, and nothing new is begun.
  void Drain();
  // As rpc::GrpcServer::Shutdown.
  void Shutdown(std::chrono::milliseconds timeout);

  GatewayContext& context() { return context_; }
  rpc::GrpcServer& shell() { return *shell_; }

 private:
  Gateway(const Options& options, CellMap map, base::Clock* clock, metrics::RpcStats* stats);

  GatewayContext context_;
  std::unique_ptr<rpc::GrpcServer> shell_;
};

}  // namespace duetime::gateway
