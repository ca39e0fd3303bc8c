// SPDX-License-Identifier: Apache-2.0
//
// GrpcServer: the gRPC shell.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <grpcpp/server.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_server_options.h"
#include "server/rpc/limits/listener.h"
#include "server/rpc/limits/sweeper.h"
#include "server/rpc/methods.h"
#include "server/rpc/server_state.h"
#include "server/rpc/services.h"
#include "server/rpc/tls_files.h"

namespace duetime::rpc {

// Serves the methods of an API, grpc.health.v1.Health and gRPC's reflection on asynchronous
// completion queues of one thread each. A connection and all its calls live on one queue, so a call
// is confined to one thread from its arrival to its end.
//
// Life, in this order: Create, Listen, Shutdown. Guarantees: every accepted call is answered; a
// completion queue's thread never blocks. Thread safety: one thread calls the life functions; any
// thread may give tasks to the workers.
class GrpcServer {
 public:
  // Checks the options and reads the TLS files; opens nothing yet. `state` outlives the server.
  // `message_bytes_max`: the largest payload or batch of a request. `sweep_ms`: how often the
  // workers look at the deadlines of their sessions.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(const GrpcServerOptions& options,
                                                            size_t message_bytes_max,
                                                            uint64_t sweep_ms, ServerState* state,
                                                            ServedMethods served);
  ~GrpcServer() { Shutdown(std::chrono::milliseconds(0)); }
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Binds every address and starts the threads. An error names the address that cannot be bound.
  absl::Status Listen();

  // Ends all streams and, after `timeout`, closes the streams that remain. After another `timeout`,
  // answers the calls that still wait with DRAINING. Then stops the threads. REQUIRES: the shards
  // that calls wait for still run. Idempotent.
  void Shutdown(std::chrono::milliseconds timeout);

  // Makes every worker check the serving state.
  void WakeAll() {
    for (const auto& worker : workers_) worker->Wake();
  }

  size_t workers() const { return workers_.size(); }
  CqWorker& worker(size_t index) { return *workers_[index]; }
  bool listening() const { return server_ != nullptr; }
  // The bound addresses, with the port that the system chose for ":0".
  std::vector<std::string> addresses() const {
    return listener_ == nullptr ? std::vector<std::string>{} : listener_->addresses();
  }
  // The number of open connections, and of refused ones. REQUIRES: Listen returned OK.
  uint64_t connections() const { return listener_->connections(); }
  uint64_t connections_refused() const { return listener_->refused(); }
  // Null without TLS.
  TlsFiles* tls_files() const { return tls_files_.get(); }

 private:
  GrpcServer(const GrpcServerOptions& options, size_t message_bytes_max, uint64_t sweep_ms,
             ServerState* state, ServedMethods served, std::unique_ptr<TlsFiles> tls_files);

  const GrpcServerOptions options_;
  const size_t message_bytes_max_;
  ServerState* const state_;
  const ServedMethods served_;
  // Null without TLS.
  const std::unique_ptr<TlsFiles> tls_files_;
  Services services_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<UntakenAnswers::Limit> untaken_;
  std::vector<std::unique_ptr<CqWorker>> workers_;
  // Declared after the workers, because their queues must outlive the gRPC server.
  std::unique_ptr<grpc::Server> server_;
  Sweeper sweeper_;
  bool shut_down_ = false;
};

}  // namespace duetime::rpc
