// SPDX-License-Identifier: Apache-2.0
//
// Server: the gRPC server of the daemon, from start to end.
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
#include "server/api/pair_collector.h"
#include "server/api/serving_context.h"
#include "server/rpc/grpc_server.h"
#include "server/runtime/effect_sink.h"
#include "storage/message_store.h"

namespace duetime::api {

// The parts of the daemon that exist once the storage is open.
struct ServeFacts {
  // Started; must outlive Shutdown().
  runtime::Node* node = nullptr;
  // Outlives Shutdown(), too. The server reads lists and forecasts from it.
  storage::MessageStore* store = nullptr;
  // MessageStore::epoch().
  uint64_t epoch = 0;
  // Outlives Shutdown(), which stops it.
  runtime::Backups* backups = nullptr;
  // The same. Null unless NodeOptions::test_clock is set.
  runtime::ClockDriver* clock_driver = nullptr;
  // Called for each call or frame that schedules or creates (CallKind::kSchedule). True: the server
  // refuses it with DISK_LOW. Thread-safe, does not block; may be empty.
  std::function<bool()> disk_low;
};

// Serves duetime.v1.Messages, duetime.v1.Admin and, with a test clock, TestClock through the gRPC
// shell, and passes the effects of the shards and the answers of the catalog to the threads of the
// shell.
//
// Life, in this order: Create, Listen (answers STARTING), Serve, Drain, Shutdown. Guarantees: every
// accepted call is answered; the options bound the memory that a client can make the server use.
// Thread safety: several threads may call Deliver and Answer at once, also before Serve and after
// Shutdown, when no call is left to get them. Any thread may call the accessors. One thread calls
// the life functions.
class Server final : public runtime::EffectSink {
 public:
  // Checks the options and reads the TLS files; opens nothing yet. `node_options` are those of the
  // node. `clock` and `stats` outlive the server. REQUIRES: the access files were read once.
  static absl::StatusOr<std::unique_ptr<Server>> Create(ServerOptions options,
                                                        const runtime::NodeOptions& node_options,
                                                        base::Clock* clock,
                                                        metrics::RpcStats* stats,
                                                        const Guards& guards = {});
  ~Server() override { Shutdown(std::chrono::milliseconds(0)); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds every address and starts the threads. Until Serve, calls are refused with STARTING and
  // health is NOT_SERVING. An error names the address that cannot be bound.
  absl::Status Listen();

  // The server is that of a member of a cell. REQUIRES: Listen was not called; `roster` outlives
  // the server.
  void JoinCell(const std::string& member, const cell::Roster* roster) {
    context_.cell_member = member;
    context_.roster = roster;
  }
  // A client wants another member of the cell to lead.
  bool hand_over_wanted() const { return context_.hand_over.load(); }

  // Until Serve, calls are refused with NOT_LEADER, which names the address of the member that
  // leads the cell; empty: none does. May be called again. REQUIRES: Listen returned OK.
  void ShowStandby(const std::string& leader);

  // Starts to accept calls. REQUIRES: Listen returned OK.
  void Serve(ServeFacts facts);

  // Called by the engine threads.
  void Deliver(uint16_t shard, protocol::Effects effects) override;
  // Called by the catalog's thread.
  void Answer(std::vector<catalog::Reply> replies, bool failed) override;

  // Health becomes NOT_SERVING. Open Subscribe streams get a DrainNotice, and open ScheduleStreams
  // end with DRAINING. New calls of the kinds kSchedule and kSubscribe are refused with DRAINING.
  // Settlements, Cancel, Get and all other calls continue. Returns at once.
  void Drain();

  // Ends all streams with DRAINING and, after `timeout`, closes the streams that remain. After
  // another `timeout`, answers the calls that still wait for a shard with DRAINING. Then stops the
  // threads. REQUIRES: the node still runs. Idempotent.
  void Shutdown(std::chrono::milliseconds timeout);

  // The bound addresses, with the port that the system chose for ":0".
  std::vector<std::string> addresses() const { return shell_->addresses(); }
  // Reads the TLS files again if there are any. An error keeps the former ones.
  absl::Status ReloadTls();
  // Empty while the server accepts calls; else why not: "starting", "standby", "draining", "storage
  // failed".
  std::string NotReady() const;
  // As NotReady, but empty also while this member of a cell follows a leader.
  std::string NotInCell() const;
  const rpc::GrpcServer& shell() const { return *shell_; }
  const rpc::ServerState& state() const { return context_; }
  // The number of open Subscribe streams.
  uint64_t streams() const { return context_.streams.load(); }
  // The bytes of answers that are not given to gRPC yet, and the calls refused because of them.
  const protocol::AnswerBudgetPtr& open_answers() const { return context_.open_answers; }
  // The number of topics that topics_max counts, of names of deleted topics that are kept, and of
  // those that have ended. 0 until the server serves.
  size_t topics() const;
  size_t deleted_topics() const;
  size_t ended_topics() const;
  // The number of named subscriptions of all topics. 0 until the server serves.
  size_t subscriptions() const;
  // From now on FreshPairs collects the metrics of topics and subscriptions. REQUIRES: Listen
  // returned OK, and nobody calls FreshPairs yet.
  void CollectPairs(metrics::PairOptions options);
  // The numbers of now, as far as they come within a tenth of a second, and else the former ones.
  // Null without CollectPairs.
  const metrics::PairTable* FreshPairs() const;

 private:
  Server(ServerOptions options, const runtime::NodeOptions& node_options, base::Clock* clock,
         metrics::RpcStats* stats, const Guards& guards);

  void PostWakes(const std::vector<protocol::WakeShards>& wakes);
  // Gives each thread of the shell the effects for its calls and streams.
  void Partition(uint16_t shard, protocol::Effects effects);
  ApiWorker& worker(size_t index) { return static_cast<ApiWorker&>(shell_->worker(index).app()); }
  // Called when the journal or a read has failed.
  void OnStorageFailed();

  ServingContext context_;
  // Declared before the shell. Its last jobs may end after the workers, which then drop the
  // results.
  std::unique_ptr<runtime::Reader> reader_;
  // Null without CollectPairs.
  std::unique_ptr<metrics::PairTable> pairs_;
  std::unique_ptr<PairCollector> pair_collector_;
  std::unique_ptr<rpc::GrpcServer> shell_;
};

}  // namespace duetime::api
