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

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/api/api_worker.h"
#include "server/api/serving_context.h"
#include "server/base/mutex.h"
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
  // MessageStore::Topics().
  std::vector<std::pair<storage::TopicId, std::string>> topics;
  // MessageStore::epoch().
  uint64_t epoch = 0;
  // Asked for each new message: true if it must be refused with DISK_LOW. Thread-safe, does not
  // block; may be empty.
  std::function<bool()> disk_low;
};

// Serves duetime.v1.Messages and duetime.v1.Admin through the gRPC shell, and takes the effects of
// the shards to the threads of the shell.
//
// Life, in this order: Create, Listen (answers STARTING), Serve, Drain, Shutdown.
// Guarantees: every call that was accepted is answered; what a peer can make the server hold is
// bounded by the options.
// Thread safety: Deliver may be called by several threads at once, also before Serve and after
// Shutdown (then it does nothing), and so may the readers. The life functions are for one thread.
class Server final : public runtime::EffectSink {
 public:
  // Checks the options and reads the TLS files; opens nothing yet. `shard_limits` are those of the
  // node. `clock` and `stats` outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Create(ServerOptions options,
                                                        const delivery::ShardLimits& shard_limits,
                                                        base::Clock* clock,
                                                        metrics::RpcStats* stats);
  ~Server() override { Shutdown(std::chrono::milliseconds(0)); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds every address and starts the threads. Until Serve, calls are refused with STARTING and
  // health is NOT_SERVING. An error names the address that cannot be had.
  absl::Status Listen();

  // Starts to serve: returns when every shard knows the settings of the topics, and calls are
  // taken. REQUIRES: Listen returned OK. An error means that the store cannot be read.
  absl::Status Serve(ServeFacts facts);

  // From the engine threads.
  void Deliver(uint16_t shard, protocol::Effects effects) override;

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
  // Topics with a name, known to be on disk or not.
  size_t topics() const { return context_.topics.size(); }
  // Subscriptions with a name, of all topics.
  size_t subscriptions() const { return context_.subscriptions.size(); }
  // True once a shard reported that the journal or a read failed.
  bool storage_failed() const { return context_.state.load() == ServingState::kStorageFailed; }

 private:
  Server(ServerOptions options, const delivery::ShardLimits& shard_limits, base::Clock* clock,
         metrics::RpcStats* stats);

  void PostWakes(const std::vector<protocol::WakeShards>& wakes);
  // Gives each thread of the shell the effects that are for its calls and streams.
  void Partition(uint16_t shard, protocol::Effects effects);
  ApiWorker& worker(size_t index) { return static_cast<ApiWorker&>(shell_->worker(index).app()); }
  absl::Status LoadTopics(const ServeFacts& facts);
  absl::Status LoadSubscriptions(storage::MessageStore* store);
  // Finds the dead-letter topics that no record names yet.
  void FindDeadLetters();
  // Returns when every shard has all subscriptions, and knows the settings of every topic: until
  // then one would take messages that another has no room for.
  void TellSettings();
  void DropUnaddressed(std::vector<protocol::Reply>* replies);

  ServingContext context_;
  // Before the shell: its jobs may still run when the workers are gone, and find them closed.
  std::unique_ptr<runtime::Reader> reader_;
  std::unique_ptr<rpc::GrpcServer> shell_;

  base::Mutex starting_mutex_;
  base::CondVar told_;
  // Commands for the shards when the server starts to serve.
  std::vector<SubscriptionRegistry::Repair> repairs_;
  // Topics with a named subscription.
  absl::flat_hash_set<storage::TopicId> subscribed_;
  // Answers of shards that Serve waits for.
  size_t untold_ ABSL_GUARDED_BY(starting_mutex_) = 0;
};

}  // namespace duetime::api
