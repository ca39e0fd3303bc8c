// SPDX-License-Identifier: Apache-2.0
//
// GrpcServer: the daemon's gRPC face.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/grpc_server_options.h"
#include "server/runtime/node.h"
#include "storage/message_store.h"
#include "storage/types.h"

namespace duetime::rpc {

// What the server needs to know once the storage is open.
struct ServeFacts {
  // Started; must outlive Shutdown().
  runtime::Node* node = nullptr;
  // Outlives Shutdown(), too. Lists and forecasts read it.
  storage::MessageStore* store = nullptr;
  // MessageStore::Topics().
  std::vector<std::pair<storage::TopicId, std::string>> topics;
  // MessageStore::epoch().
  uint64_t epoch = 0;
  // Asked for each new message: true if it must be refused with DISK_LOW. Thread-safe, does not
  // block; may be empty.
  std::function<bool()> disk_low;
};

// Serves duetime.v1.Messages, duetime.v1.Admin, grpc.health.v1.Health and gRPC's reflection on
// asynchronous completion queues of one thread each. A connection and all its calls live on one
// queue, so a call is confined to one thread from its arrival to its end.
//
// Life, in this order: Create, Listen (answers STARTING), Serve, Drain, Shutdown.
// Guarantees: every call that was accepted is answered; a completion queue's thread never blocks;
// what a peer can make the server hold is bounded by the options.
// Thread safety: Deliver may be called by several threads at once, also before Serve and after
// Shutdown (then it does nothing), and so may the readers. The life functions are for one thread.
class GrpcServer final : public runtime::EffectSink {
 public:
  // Checks the options and reads the TLS files; opens nothing yet. `clock` and `stats` outlive the
  // server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(GrpcServerOptions options,
                                                            base::Clock* clock,
                                                            metrics::RpcStats* stats);
  ~GrpcServer() override;
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Binds every address and starts the threads. Until Serve, calls are refused with STARTING and
  // health is NOT_SERVING. An error names the address that cannot be had.
  absl::Status Listen();

  // Starts to serve: returns when every shard knows the settings of the topics, and calls are
  // taken. REQUIRES: Listen returned OK. An error means that the store cannot be read.
  absl::Status Serve(ServeFacts facts);

  // From the engine threads: answers and deliveries.
  void Deliver(uint16_t shard, delivery::Effects effects) override;

  // Health becomes NOT_SERVING, Schedule, ScheduleBatch and Subscribe are refused with DRAINING and
  // open streams get a DrainNotice. Returns at once; settlements, Cancel and Get go on.
  void Drain();

  // Ends all streams with DRAINING, cuts off after `timeout` what has not ended, answers calls that
  // no shard has answered after as long again with DRAINING, and stops the threads. The node must
  // still run, to answer. Idempotent.
  void Shutdown(std::chrono::milliseconds timeout);

  // The addresses in force, with the port that the system chose for ":0".
  std::vector<std::string> addresses() const;
  // Open Subscribe streams.
  uint64_t streams() const;
  // Topics with a name, known to be on disk or not.
  size_t topics() const;
  // Subscriptions with a name, of all topics.
  size_t subscriptions() const;
  // True once a shard reported that the journal or a read failed.
  bool storage_failed() const;

 private:
  class Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::rpc
