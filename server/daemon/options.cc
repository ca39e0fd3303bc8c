// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/options.h"

#include <algorithm>
#include <functional>
#include <spdlog/spdlog.h>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "server/access/access_control.h"
#include "server/base/cores.h"
#include "server/base/standard_output.h"
#include "server/cell/roster.h"
#include "server/config/knobs.h"
#include "server/config/version.h"
#include "server/metrics/exporter.h"
#include "server/runtime/audit_log.h"
#include "server/runtime/catalog_engine.h"
#include "server/runtime/descriptors.h"
#include "server/runtime/logging.h"
#include "server/runtime/service_notify.h"
#include "server/runtime/stall_watch.h"
#include "server/runtime/system_clock.h"
#include "storage/repair/repair.h"
#include "storage/repair/restore.h"
#include "storage/repair/verify.h"
#include "storage/rocksdb/checkpoint.h"

namespace duetime {
namespace {

constexpr uint16_t kShardsInCell = 4;

void LogStore(storage::RocksDbStoreOptions::LogLevel level, absl::string_view text) {
  const bool error = level == storage::RocksDbStoreOptions::LogLevel::kError;
  spdlog::log(error ? spdlog::level::err : spdlog::level::warn, "store: {}", std::string(text));
}

void LogFailedStart(const absl::Status& status) {
  spdlog::critical("cannot start: {}", status.ToString());
}

void Verify(config::Loaded* loaded) {
  const auto print = [loaded](absl::string_view line) {
    absl::StrAppend(&loaded->output, line, "\n");
  };
  bool perhaps_lost = false;
  const absl::Status status = storage::VerifyDirectory(loaded->verify_dir, print, &perhaps_lost);
  if (!status.ok()) {
    print(status.message());
  } else {
    print(perhaps_lost ? "intact, but for the end of the log" : "intact");
  }
  if (status.ok() && perhaps_lost) loaded->exit_code = config::ExitCode::kTornEnd;
  if (!status.ok()) loaded->exit_code = config::CodeOfFailedStart(status);
}

config::ExitCode Repair(const config::Loaded& loaded) {
  const auto print = [](absl::string_view line) { base::WriteOutput(absl::StrCat(line, "\n")); };
  const uint64_t now_ms = runtime::SystemClock(loaded.config.clock).Read().wall_ms;
  bool written = false;
  const absl::Status status = storage::RepairDirectory(loaded.repair_dir, loaded.into_dir, now_ms,
                                                       runtime::TopicsOfObject, print, &written);
  print(status.ok() ? "nothing is lost" : status.message());
  if (status.ok()) return config::ExitCode::kStopped;
  return written ? config::ExitCode::kRecordsLost : config::CodeOfFailedStart(status);
}

void Restore(config::Loaded* loaded) {
  const uint64_t now_ms = runtime::SystemClock(loaded->config.clock).Read().wall_ms;
  const absl::StatusOr<uint64_t> snapshot_ms = runtime::ReadSnapshotMs(loaded->restore_dir);
  absl::Status status = snapshot_ms.status();
  if (status.ok()) {
    status = storage::RestoreDirectory(loaded->restore_dir, loaded->into_dir, *snapshot_ms, now_ms);
  }
  if (!status.ok()) {
    loaded->exit_code = config::CodeOfFailedStart(status);
    loaded->output = absl::StrCat(status.message(), "\n");
    return;
  }
  loaded->output = absl::StrCat(
      loaded->into_dir, " is ready. It holds the messages of ",
      absl::FormatTime(absl::RFC3339_sec, absl::FromUnixMillis(static_cast<int64_t>(*snapshot_ms)),
                       absl::UTCTimeZone()),
      ".\nAll its topics are paused: after the start, see `duetime restore status`.\n");
}

// The state of the service, for `systemctl status`.
std::string StateText(const std::string& trouble, const api::Server& grpc,
                      const runtime::Housekeeping& housekeeping) {
  if (!trouble.empty()) return trouble;
  if (const std::string reason = grpc.NotReady(); !reason.empty()) return reason;
  return housekeeping.disk_low() ? "serving; the disk is nearly full, so new messages are refused"
                                 : "serving";
}

std::shared_ptr<const runtime::StallWatch> WatchProgress(const runtime::Node* node,
                                                         const api::Server* grpc,
                                                         runtime::Housekeeping* housekeeping) {
  auto progress = std::make_shared<runtime::StallWatch>();
  auto look = [=, watched = runtime::SupervisorWatches(), told = std::string()]() mutable {
    // The engines of a member that follows do not run.
    if (grpc->NotReady() != "standby") progress->Look(node->turns());
    const std::string trouble = progress->Trouble();
    const std::string state = StateText(trouble, *grpc, *housekeeping);
    if (std::exchange(told, state) != state) {
      runtime::NotifySupervisor(absl::StrCat("STATUS=", state));
    }
    if (!trouble.empty()) return absl::UnavailableError(trouble);
    if (watched) runtime::NotifySupervisor("WATCHDOG=1");
    return absl::OkStatus();
  };
  housekeeping->Add("keep every shard going", std::move(look));
  return progress;
}

}  // namespace

absl::Status FitProcessLimits(config::Config* config) {
  if (!config->process.core_dumps) runtime::ForbidCoreDumps();
  const uint64_t limit = runtime::RaiseDescriptorLimit();
  if (limit < runtime::kDescriptorsMin) {
    return absl::FailedPreconditionError(absl::StrCat("the limit of open files is ", limit,
                                                      ", at least ", runtime::kDescriptorsMin,
                                                      " are needed: ulimit -n, LimitNOFILE="));
  }
  const runtime::DescriptorPlan plan = runtime::PlanDescriptors(
      limit, config->server.connections_max, config->metrics.connections_max);
  spdlog::info(
      "the limit of open files is {}: at most {} connections (connections_max = {}), {} to the "
      "metrics (metrics_connections_max = {})",
      limit, plan.connections, config->server.connections_max, plan.metrics_connections,
      config->metrics.connections_max);
  config->server.connections_max = plan.connections;
  config->metrics.connections_max = plan.metrics_connections;
  config->store.open_files_max = plan.tables;
  return absl::OkStatus();
}

storage::RocksDbStoreOptions StoreOptionsOf(const storage::StoreOptions& knobs, bool init,
                                            bool in_cell) {
  storage::RocksDbStoreOptions options{knobs};
  options.shards_if_new = in_cell ? kShardsInCell : static_cast<uint16_t>(base::DefaultThreads());
  options.use = in_cell ? storage::RocksDbStoreOptions::Use::kInCell
                        : storage::RocksDbStoreOptions::Use::kAlone;
  options.create_if_missing = init;
  options.log = LogStore;
  return options;
}

runtime::StoreTasks TasksOf(storage::RocksDbStore* store) {
  return {.disk_free = [store] { return store->DiskFreeBytes(); },
          .write_witness = [store] { return store->WriteWitness(); },
          .drop_expired = [store](uint64_t until_ms) { store->DropExpired(until_ms); }};
}

runtime::CheckpointTasks CheckpointsOf(storage::RocksDbStore* store) {
  return {.write = [store](const std::string& path) { return store->WriteCheckpoint(path); },
          .list = storage::ListCheckpoint};
}

std::shared_ptr<const runtime::StallWatch> AddTasks(runtime::Housekeeping* housekeeping,
                                                    Guarding* guarding, api::Server* grpc,
                                                    runtime::Backups* backups,
                                                    const runtime::Node* node) {
  housekeeping->Add("read the access files", [guarding] { return guarding->Reload(); });
  housekeeping->Add("read the TLS files", [grpc] { return grpc->ReloadTls(); });
  housekeeping->Add("end a backup", [backups, housekeeping] {
    backups->Tend(housekeeping->disk_low());
    return absl::OkStatus();
  });
  return WatchProgress(node, grpc, housekeeping);
}

Guarding::Guarding() = default;
Guarding::~Guarding() = default;

absl::Status Guarding::Reload() { return access_->Reload(); }

absl::Status Guarding::Open(const config::Config& config) {
  access_ = std::make_unique<access::AccessControl>(config.access);
  if (absl::Status status = access_->Reload(); !status.ok()) return status;
  auto audit = runtime::AuditLog::Open(config.audit);
  if (!audit.ok()) return audit.status();
  audit_ = *std::move(audit);
  return absl::OkStatus();
}

api::Guards Guarding::guards() const {
  return {.access = access_->on() ? access_.get() : nullptr, .audit = audit_.get()};
}

void LogStandby(const api::Server& grpc) {
  spdlog::info("standby: duetimed {} grpc={}", config::Version(),
               absl::StrJoin(grpc.addresses(), ","));
  runtime::NotifySupervisor("READY=1");
}

void LogReady(const storage::RocksDbStore& store, const runtime::Node& node,
              const api::Server& grpc, const metrics::Exporter* exporter) {
  spdlog::info("ready: duetimed {} epoch={} shards={} grpc={} metrics={}", config::Version(),
               store.epoch(), node.shard_count(), absl::StrJoin(grpc.addresses(), ","),
               exporter == nullptr ? "off" : exporter->address());
  if (absl::c_all_of(grpc.addresses(), [](const std::string& address) {
        return absl::StartsWith(address, "unix:");
      })) {
    spdlog::info(
        "no port is open: only programs of this machine or container reach the socket. For others, "
        "--listen=0.0.0.0:7788 with certificates (--tls-cert, --tls-key, --tls-client-ca); or, on "
        "a port that is published on the loopback only, with --insecure-nonloopback: whoever "
        "reaches it may do everything");
  }
  runtime::NotifySupervisor("READY=1");
}

void LogMisfit(uint64_t shards, const config::Config& config) {
  const std::string text =
      runtime::MisfitText(shards, config.server.io_threads, base::UsableCores());
  if (!text.empty()) spdlog::warn("{}", text);
}

config::ExitCode CannotOpen(const absl::Status& status) {
  LogFailedStart(status);
  return config::CodeOfFailedStart(status);
}

config::ExitCode RestartHelps() {
  spdlog::warn("the cause of the failed write has passed; exit code {} asks for a restart",
               static_cast<int>(config::ExitCode::kRestart));
  return config::ExitCode::kRestart;
}

config::ExitCode CannotListen(const absl::Status& status) {
  LogFailedStart(status);
  return absl::IsInvalidArgument(status) ? config::ExitCode::kConfiguration
                                         : config::ExitCode::kCannotListen;
}

void DoOffline(config::Loaded* loaded) {
  if (loaded->verify_dir.empty() && loaded->repair_dir.empty() && loaded->restore_dir.empty()) {
    return;
  }
  umask(0077);
  // --verify has every table open at once.
  runtime::RaiseDescriptorLimit();
  if (!loaded->verify_dir.empty()) {
    Verify(loaded);
  } else if (!loaded->repair_dir.empty()) {
    loaded->exit_code = Repair(*loaded);
  } else {
    Restore(loaded);
  }
}

}  // namespace duetime
