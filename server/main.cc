// SPDX-License-Identifier: Apache-2.0
//
// duetimed: starts and stops the parts of the daemon in order.
#include <chrono>
#include <cstdio>
#include <memory>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"

#include "server/api/server.h"
#include "server/config/knobs.h"
#include "server/config/load.h"
#include "server/config/version.h"
#include "server/main_options.h"
#include "server/metrics/exporter.h"
#include "server/rpc/grpc_log.h"
#include "server/runtime/drain.h"
#include "server/runtime/housekeeping.h"
#include "server/runtime/logging.h"
#include "server/runtime/signals.h"
#include "server/runtime/system_clock.h"

namespace duetime {
namespace {

// The time that open calls have for their answers at the end.
constexpr std::chrono::seconds kShutdownTimeout{1};

int CannotStart(const absl::Status& status, int exit_code) {
  spdlog::critical("cannot start: {}", status.ToString());
  return exit_code;
}

int Serve(const config::Config& config) {
  runtime::SystemClock clock(config.clock);
  metrics::RpcStats rpc_stats;
  // Listen before the storage opens, so that clients get STARTING meanwhile.
  const auto server = api::Server::Create(config.server, config.node, &clock, &rpc_stats);
  if (!server.ok()) return CannotStart(server.status(), 1);
  api::Server* const grpc = server->get();
  if (absl::Status status = grpc->Listen(); !status.ok()) return CannotStart(status, 1);

  const auto opened = storage::RocksDbStore::Open(StoreOptionsOf(config.store));
  if (!opened.ok()) return CannotStart(opened.status(), StoreExitCode(opened.status()));
  storage::RocksDbStore* const store = opened->get();
  runtime::Node node(config.node, store, &clock, grpc);
  if (absl::Status status = node.Start(); !status.ok()) {
    return CannotStart(status, StoreExitCode(status));
  }
  runtime::Housekeeping housekeeping(config.housekeeping, TasksOf(store), &clock);
  housekeeping.Start();
  const auto read = [&] { return ReadAll({&node, &clock, store, grpc, &housekeeping}); };
  auto exporter = metrics::Exporter::StartIfWanted(
      config.metrics, std::make_shared<metrics::Collector>(config::Numbers(config), &rpc_stats,
                                                           config::Version(), read));
  if (!exporter.ok()) return CannotStart(exporter.status(), 1);
  const auto disk_low = [&housekeeping] { return housekeeping.disk_low(); };
  grpc->Serve({&node, store, store->epoch(), disk_low});
  spdlog::info("ready: duetimed {} epoch={} shards={} grpc={} metrics={}", config::Version(),
               store->epoch(), node.shard_count(), absl::StrJoin(grpc->addresses(), ","),
               *exporter == nullptr ? "off" : (*exporter)->address());

  const int signal = runtime::WaitForStopSignal();
  spdlog::info("signal {}: draining for at most {} ms", signal, config.server.drain_grace_ms);
  grpc->Drain();
  const uint64_t left = runtime::StopDispatchAndWait(&node, &clock, config.server.drain_grace_ms);
  grpc->Shutdown(kShutdownTimeout);
  node.Stop();
  exporter->reset();
  housekeeping.Stop();
  const absl::Status closed = store->Close();
  if (!closed.ok()) spdlog::error("the store did not close cleanly: {}", closed.ToString());
  spdlog::info("stopped; {} deliveries were not settled and will be repeated", left);
  return closed.ok() ? 0 : 1;
}

}  // namespace
}  // namespace duetime

int main(int argc, char** argv) {
  // In Debian's debug build of abseil, a mutex would look for deadlocks under a process-wide lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const duetime::config::Loaded loaded = duetime::config::Load(argc, argv);
  if (!loaded.run) {
    std::fputs(loaded.output.c_str(), loaded.exit_code == 0 ? stdout : stderr);
    return loaded.exit_code;
  }
  umask(0077);
  duetime::runtime::BlockStopSignals();
  duetime::runtime::SetUpLogging(loaded.config.log);
  duetime::rpc::ForwardGrpcLogs();
  return duetime::Serve(loaded.config);
}
