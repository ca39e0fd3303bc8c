// SPDX-License-Identifier: Apache-2.0
//
// duetimed: starts and stops the parts of the daemon in order.
#include <chrono>
#include <cstdio>
#include <memory>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include "absl/synchronization/mutex.h"

#include "server/api/server.h"
#include "server/config/load.h"
#include "server/main_events.h"
#include "server/main_options.h"
#include "server/metrics/exporter.h"
#include "server/rpc/grpc_log.h"
#include "server/runtime/drain.h"
#include "server/runtime/logging.h"
#include "server/runtime/service_notify.h"
#include "server/runtime/signals.h"
#include "server/runtime/system_clock.h"

namespace duetime {
namespace {

// The time that open calls have for their answers at the end.
constexpr std::chrono::seconds kShutdownTimeout{1};

using config::ExitCode;

ExitCode Serve(const config::Loaded& loaded, const Invocation& invocation) {
  config::Config config = loaded.config;
  if (absl::Status status = FitProcessLimits(&config); !status.ok()) return CannotOpen(status);
  runtime::SystemClock clock(config.clock);
  metrics::RpcStats rpc_stats;
  Guarding guarding;
  if (absl::Status status = guarding.Open(config); !status.ok()) return CannotListen(status);
  // Listen before the storage opens, so that clients get STARTING meanwhile.
  const auto server =
      api::Server::Create(config.server, config.node, &clock, &rpc_stats, guarding.guards());
  if (!server.ok()) return CannotListen(server.status());
  api::Server* const grpc = server->get();
  if (absl::Status status = grpc->Listen(); !status.ok()) return CannotListen(status);

  storage::RocksDbStoreOptions options = StoreOptionsOf(config.store, loaded.init);
  options.now_ms = clock.Read().wall_ms;
  const auto opened = storage::RocksDbStore::Open(options);
  if (!opened.ok()) return CannotOpen(opened.status());
  storage::RocksDbStore* const store = opened->get();
  runtime::Node node(config.node, store, store, &clock, grpc);
  if (absl::Status status = node.Start(); !status.ok()) return CannotOpen(status);
  runtime::Backups backups(config.backup, config.store.data_dir, CheckpointsOf(store), &clock);
  runtime::Housekeeping housekeeping(config.housekeeping, TasksOf(store), &clock);
  const auto progress = AddTasks(&housekeeping, &guarding, grpc, &backups, &node);
  housekeeping.Start();
  auto exporter = StartMetrics(
      config, &rpc_stats,
      {&node, &clock, store, grpc, &housekeeping, &backups, guarding.guards(), progress});
  if (!exporter.ok()) return CannotListen(exporter.status());
  grpc->Serve({&node, store, store->epoch(), &backups, [&] { return housekeeping.disk_low(); }});
  LogReady(*store, node, *grpc, exporter->get());
  const int signal =
      WaitForStop(invocation, loaded.config, [store] { return store->ReopenWouldHelp(); });
  const uint64_t grace_ms = signal == 0 ? 0 : config.server.drain_grace_ms;
  spdlog::info("signal {}: draining for at most {} ms", signal, grace_ms);
  runtime::NotifySupervisor("STOPPING=1");
  grpc->Drain();
  const uint64_t left = runtime::StopDispatchAndWait(&node, &clock, grace_ms);
  grpc->Shutdown(kShutdownTimeout);
  node.Stop();
  exporter->reset();
  housekeeping.Stop();
  const absl::Status closed = store->Close();
  if (!closed.ok()) spdlog::error("the store did not close cleanly: {}", closed.ToString());
  spdlog::info("stopped; {} deliveries were not settled and will be repeated", left);
  if (signal == 0) return RestartHelps();
  return closed.ok() && !node.failed() ? ExitCode::kStopped : ExitCode::kDiskError;
}

}  // namespace
}  // namespace duetime

int main(int argc, char** argv) {
  // In Debian's debug build of abseil, a mutex would look for deadlocks under a process-wide lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  duetime::config::Loaded loaded = duetime::config::Load(argc, argv);
  duetime::DoOffline(&loaded);
  if (!loaded.run) {
    const bool failed = loaded.exit_code != duetime::config::ExitCode::kStopped;
    std::fputs(loaded.output.c_str(), failed ? stderr : stdout);
    return static_cast<int>(loaded.exit_code);
  }
  umask(0077);
  duetime::runtime::BlockSignals();
  const duetime::runtime::Log log(loaded.config.log);
  duetime::rpc::ForwardGrpcLogs();
  return static_cast<int>(duetime::Serve(loaded, {.argc = argc, .argv = argv}));
}
