// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/serve.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/api/call_table.h"
#include "server/api/server.h"
#include "server/daemon/cell.h"
#include "server/daemon/metrics.h"
#include "server/daemon/options.h"
#include "server/daemon/test_clock.h"
#include "server/metrics/exporter.h"
#include "server/runtime/clock_driver.h"
#include "server/runtime/drain.h"
#include "server/runtime/service_notify.h"
#include "server/runtime/stall_watch.h"
#include "server/runtime/system_clock.h"
#include "storage/repair/fetched.h"

namespace duetime {
namespace {

// The time that open calls have for their answers at the end. In a cell, the next leader waits for
// it, and for the subscribers' last settlements.
constexpr std::chrono::milliseconds kShutdownTimeout{1'000};
constexpr std::chrono::milliseconds kHandOverTimeout{100};
constexpr uint64_t kHandOverGraceMs = 100;
// The last settlements of a leader that may not serve reach no one.
constexpr uint64_t kLastGroupMs = 2'000;
// How often main looks whether something has ended.
constexpr std::chrono::milliseconds kLookEvery{1'000};
constexpr std::chrono::milliseconds kLookInCellEvery{5};

using config::ExitCode;

// The parts of a run that exist once the store is open. The destructor ends them in order.
class Run {
 public:
  Run(const config::Config& config, storage::RocksDbStore* store, base::Clock* clock,
      std::unique_ptr<Membership> member, const cell::Roster* roster, api::Server* grpc)
      : config_(config),
        store_(store),
        clock_(clock),
        member_(std::move(member)),
        roster_(roster),
        grpc_(grpc),
        node_(config.node, member_ ? member_->journal() : store, store, clock, grpc),
        backups_(config.backup, config.store.data_dir, CheckpointsOf(store), clock),
        housekeeping_(config.housekeeping, TasksOf(store), clock) {}

  // REQUIRES: it is the clock of this run; Go was not called.
  void UseTestClock(runtime::TestClock* clock) {
    clock_driver_ = std::make_unique<runtime::ClockDriver>(clock, &node_);
  }

  std::optional<ExitCode> Go(const config::Loaded& loaded, const Invocation& invocation,
                             Guarding* guarding, metrics::RpcStats* rpc_stats) {
    const auto progress = AddTasks(&housekeeping_, guarding, grpc_, &backups_, &node_);
    if (clock_driver_ != nullptr) {
      housekeeping_.Add("keep the time of the test clock",
                        [this] { return clock_driver_->clock().Save(); });
    }
    housekeeping_.Start();
    auto exporter = StartMetrics(rpc_stats, guarding->guards(), progress);
    if (!exporter.ok()) return CannotListen(exporter.status());
    exporter_ = *std::move(exporter);
    if (member_ != nullptr) {
      member_->Ask([this] { return backups_.running(); },
                   [this] { return housekeeping_.disk_low(); });
      LogStandby(*grpc_);
      const int signal = WaitForStop(invocation, loaded.config, kLookInCellEvery,
                                     [this] { return member_->Decided(grpc_); });
      if (signal != 0 || !member_->status().ok()) return EndStandby(signal);
    }
    if (absl::Status status = node_.Start(); !status.ok()) {
      // It uses the backups.
      if (member_ != nullptr) member_->EndTending();
      if (member_ == nullptr || !absl::IsUnavailable(status)) return CannotOpen(status);
      spdlog::warn("cell: could not begin to serve: {}", status.ToString());
      return End(0);
    }
    if (clock_driver_ != nullptr) clock_driver_->Start();
    grpc_->Serve({.node = &node_,
                  .store = store_,
                  .epoch = store_->epoch(),
                  .backups = &backups_,
                  .clock_driver = clock_driver_.get(),
                  .disk_low = [this] { return housekeeping_.disk_low(); }});
    LogReady(*store_, node_, *grpc_, exporter_.get());
    LogMisfit(node_.shard_count(), config_);
    const int signal = WaitForStop(
        invocation, loaded.config, member_ ? kLookInCellEvery : kLookEvery,
        [this] { return member_ != nullptr ? LeadsNoMore() : store_->ReopenWouldHelp(); });
    return End(signal);
  }

 private:
  absl::StatusOr<std::unique_ptr<metrics::Exporter>> StartMetrics(
      const metrics::RpcStats* rpc_stats, const api::Guards& guards,
      std::shared_ptr<const runtime::StallWatch> progress) {
    auto registry = std::make_shared<metrics::Registry>();
    if (!config_.metrics.listen.empty()) grpc_->CollectPairs(PairsOf(config_.metrics));
    RegisterMetrics(config_,
                    {.rpc = rpc_stats,
                     .clock = clock_,
                     .state = &grpc_->state(),
                     .shell = &grpc_->shell(),
                     .node = &node_,
                     .store = store_,
                     .api = grpc_,
                     .housekeeping = &housekeeping_,
                     .backups = &backups_,
                     .access = guards.access,
                     .audit = guards.audit,
                     .roster = member_ == nullptr ? nullptr : roster_},
                    registry.get());
    return metrics::Exporter::StartIfWanted(
        config_.metrics, std::move(registry),
        {.not_ready = [this] { return grpc_->NotReady(); },
         .not_in_cell = [this] { return grpc_->NotInCell(); },
         .not_healthy = [progress = std::move(progress)] { return progress->Trouble(); }});
  }

  bool MayServe() { return member_->journal()->MayServe(clock_->Read().mono_ms); }

  // Also if a client wants that, the clock is wrong, or the brokers answer nothing for long: as a
  // standby, this member says who leads.
  bool LeadsNoMore() {
    const uint64_t mono_ms = clock_->Read().mono_ms;
    if (served_ms_ == 0 || MayServe()) served_ms_ = mono_ms;
    return node_.failed() || grpc_->hand_over_wanted() || member_->hands_over() ||
           mono_ms - served_ms_ > config_.cell.cell_suspect_ms;
  }

  std::optional<ExitCode> End(int signal) {
    const bool in_cell = member_ != nullptr;
    uint64_t grace_ms = signal == 0 ? 0 : config_.server.drain_grace_ms;
    if (in_cell) {
      grace_ms = std::min(grace_ms, kHandOverGraceMs);
      member_->EndWithin(MayServe() ? kLastGroupMs : 0);
    }
    if (signal == 0) {
      spdlog::info("{}", in_cell ? "cell: this member serves no more" : "the store opens again");
    } else {
      spdlog::info("signal {}: draining for at most {} ms", signal, grace_ms);
    }
    if (signal != 0 || !in_cell) runtime::NotifySupervisor("STOPPING=1");
    grpc_->Drain();
    const uint64_t left = runtime::StopDispatchAndWait(&node_, clock_, grace_ms);
    grpc_->Shutdown(in_cell ? kHandOverTimeout : kShutdownTimeout);
    node_.Stop();
    const bool failed = node_.failed();
    const bool sick = failed && (!in_cell || store_->Stats().fenced || member_->leads());
    if (in_cell) LeaveLead();
    const bool closed = CloseStore();
    spdlog::info("stopped; {} deliveries were not settled and will be repeated", left);
    if (signal == 0 && !in_cell) return RestartHelps();
    // The supervisor waits before it starts a member again that could lead and cannot serve.
    if (sick || (signal != 0 && !closed)) return ExitCode::kDiskError;
    if (signal == 0) return std::nullopt;
    return ExitCode::kStopped;
  }

  // REQUIRES: nothing else appends.
  void LeaveLead() {
    if (member_->leads()) member_->Resign();
    member_->EndTending();
  }

  std::optional<ExitCode> EndStandby(int signal) {
    const absl::Status status = signal == 0 ? member_->status() : absl::OkStatus();
    if (signal != 0) runtime::NotifySupervisor("STOPPING=1");
    grpc_->Shutdown(kHandOverTimeout);
    // It may have begun to lead a moment ago.
    member_->EndWithin(kLastGroupMs);
    member_->EndTending();
    LeaveLead();
    member_.reset();
    const bool closed = CloseStore();
    if (absl::IsAborted(status)) return std::nullopt;
    if (!status.ok()) return CannotOpen(status);
    return closed ? ExitCode::kStopped : ExitCode::kDiskError;
  }

  bool CloseStore() {
    exporter_.reset();
    housekeeping_.Stop();
    const absl::Status closed = store_->Close();
    if (!closed.ok()) spdlog::error("the store did not close cleanly: {}", closed.ToString());
    return closed.ok();
  }

  const config::Config& config_;
  storage::RocksDbStore* const store_;
  base::Clock* const clock_;
  // Null without a cell.
  std::unique_ptr<Membership> member_;
  const cell::Roster* const roster_;
  api::Server* const grpc_;
  runtime::Node node_;
  // Null without a test clock.
  std::unique_ptr<runtime::ClockDriver> clock_driver_;
  runtime::Backups backups_;
  runtime::Housekeeping housekeeping_;
  std::unique_ptr<metrics::Exporter> exporter_;
  // When this member's journal last allowed answers.
  uint64_t served_ms_ = 0;
};

}  // namespace

std::optional<ExitCode> Serve(const config::Loaded& loaded, const Invocation& invocation) {
  config::Config config = loaded.config;
  if (absl::Status status = FitProcessLimits(&config); !status.ok()) return CannotOpen(status);
  const std::unique_ptr<runtime::TestClock> test_clock = MakeTestClock(&config);
  runtime::SystemClock system_clock(config.clock);
  base::Clock& clock = test_clock ? static_cast<base::Clock&>(*test_clock) : system_clock;
  metrics::RpcStats rpc_stats(api::MethodNames());
  Guarding guarding;
  cell::Roster roster(config.cell.cell_clock_difference_max_ms);
  if (absl::Status status = guarding.Open(config); !status.ok()) return CannotListen(status);
  // Listen before the storage opens, so that clients get STARTING meanwhile.
  const auto server =
      api::Server::Create(config.server, config.node, &clock, &rpc_stats, guarding.guards());
  if (!server.ok()) return CannotListen(server.status());
  const bool in_cell = !config.cell.cell_brokers.empty();
  if (in_cell) (*server)->JoinCell(config.cell.cell_member, &roster);
  if (absl::Status status = (*server)->Listen(); !status.ok()) return CannotListen(status);

  storage::RocksDbStoreOptions options = StoreOptionsOf(config.store, loaded.init, in_cell);
  options.now_ms = clock.Read().wall_ms;
  options.own_file = config.audit.audit_log;
  if (test_clock != nullptr) FitTestStore(&options);
  if (in_cell) {
    if (absl::Status status = storage::TakeFetched(config.store.data_dir); !status.ok()) {
      return CannotOpen(status);
    }
  }
  const auto store = storage::RocksDbStore::Open(options);
  if (!store.ok()) return CannotOpen(store.status());
  if (absl::Status status = CheckTestStore(config, store->get(), test_clock.get()); !status.ok()) {
    return CannotOpen(status);
  }
  std::unique_ptr<Membership> member;
  if (in_cell) {
    auto begun = Membership::Begin(config, store->get(), &clock, &roster);
    if (!begun.ok()) return CannotOpen(begun.status());
    member = *std::move(begun);
  }
  Run run(config, store->get(), &clock, std::move(member), &roster, server->get());
  if (test_clock != nullptr) run.UseTestClock(test_clock.get());
  return run.Go(loaded, invocation, &guarding, &rpc_stats);
}

}  // namespace duetime
