// SPDX-License-Identifier: Apache-2.0
//
// Server: the daemon's face to its clients, from the start to the end.
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

#include "server/api/api_worker.h"
#include "server/api/serving_context.h"
#include "server/rpc/grpc_server.h"
#include "server/runtime/effect_sink.h"
#include "storage/message_store.h"

namespace duetime::api {

// What the server needs to know once the storage is open.
struct ServeFacts {
  // Started; must outlive Shutdown().
  runtime::Node* node = nullptr;
  // Outlives Shutdown(), too. Lists and forecasts read it.
  storage::MessageStore* store = nullptr;
  // MessageStore::epoch().
  uint64_t epoch = 0;
  // Asked for each new message: true if it must be refused with DISK_LOW. Thread-safe, does not
  // block; may be empty.
  std::function<bool()> disk_low;
};

// Serves duetime.v1.Messages and duetime.v1.Admin through the gRPC shell, and takes the effects of
// the shards and the answers of the catalog to the threads of the shell.
//
// Life, in this order: Create, Listen (answers STARTING), Serve, Drain, Shutdown.
// Guarantees: every call that was accepted is answered; what a peer can make the server hold is
// bounded by the options.
// Thread safety: Deliver and Answer may be called by several threads at once, also before Serve and
// after Shutdown (then they do nothing), and so may the readers. The life functions are for one
// thread.
class Server final : public runtime::EffectSink {
 public:
  // Checks the options and reads the TLS files; opens nothing yet. `node_options` are those of the
  // node. `clock` and `stats` outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Create(ServerOptions options,
                                                        const runtime::NodeOptions& node_options,
                                                        base::Clock* clock,
                                                        metrics::RpcStats* stats);
  ~Server() override { Shutdown(std::chrono::milliseconds(0)); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds every address and starts the threads. Until Serve, calls are refused with STARTING and
  // health is NOT_SERVING. An error names the address that cannot be had.
  absl::Status Listen();

  // Starts to serve: calls are taken. REQUIRES: Listen returned OK.
  void Serve(ServeFacts facts);

  // From the engine threads.
  void Deliver(uint16_t shard, protocol::Effects effects) override;
  // From the catalog's thread.
  void Answer(std::vector<catalog::Reply> replies, bool failed) override;

  // Health becomes NOT_SERVING, Schedule, ScheduleBatch and Subscribe are refused with DRAINING and
  // open streams get a DrainNotice. Returns at once; settlements, Cancel and Get go on.
  void Drain();

  // Ends all streams with DRAINING, closes after `timeout` those that remain, answers calls that no
  // shard has answered after as long again with DRAINING, and stops the threads. The node must
  // still run, to answer. Idempotent.
  void Shutdown(std::chrono::milliseconds timeout);

  // The addresses in force, with the port that the system chose for ":0".
  std::vector<std::string> addresses() const { return shell_->addresses(); }
  // Open Subscribe streams.
  uint64_t streams() const { return context_.streams.load(); }
  // Topics, without deleted ones. 0 until the server serves.
  size_t topics() const;
  // Subscriptions with a name, of all topics. 0 until the server serves.
  size_t subscriptions() const;

 private:
  Server(ServerOptions options, const runtime::NodeOptions& node_options, base::Clock* clock,
         metrics::RpcStats* stats);

  void PostWakes(const std::vector<protocol::WakeShards>& wakes);
  // Gives each thread of the shell the effects that are for its calls and streams.
  void Partition(uint16_t shard, protocol::Effects effects);
  ApiWorker& worker(size_t index) { return static_cast<ApiWorker&>(shell_->worker(index).app()); }
  // The journal or a read has failed.
  void OnStorageFailed();

  ServingContext context_;
  // Before the shell: its jobs may still run when the workers are gone, and find them closed.
  std::unique_ptr<runtime::Reader> reader_;
  std::unique_ptr<rpc::GrpcServer> shell_;
};

}  // namespace duetime::api
