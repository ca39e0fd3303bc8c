// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/options.h"

#include <algorithm>
#include <functional>
#include <spdlog/spdlog.h>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
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
#include "storage/rocksdb_checkpoint.h"
#include "storage/rocksdb_repair.h"
#include "storage/rocksdb_restore.h"
#include "storage/rocksdb_verify.h"

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
  if (!status.ok()) {
    loaded->exit_code =
        absl::IsDataLoss(status) ? config::ExitCode::kDataDamaged : config::ExitCode::kNoStore;
  }
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
    loaded->exit_code = absl::IsDataLoss(status) ? config::ExitCode::kDataDamaged
                                                 : config::CodeOfFailedStart(status);
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

// Only of limits that have counted something. Names of principals are escaped, because Prometheus
// takes UTF-8 only, and a certificate may have any bytes.
std::vector<metrics::QuotaReading> ReadQuotas(const access::QuotaCountTable& table) {
  std::vector<metrics::QuotaReading> readings;
  for (const auto& [principal, counts] : table.Rows()) {
    for (size_t i = 0; i < access::kQuotaNames.size(); ++i) {
      const access::QuotaCounts::Count& count = counts->of(static_cast<access::QuotaName>(i));
      const uint64_t used = count.used.load(std::memory_order_relaxed);
      const uint64_t refused = count.refused.load(std::memory_order_relaxed);
      const uint64_t pending = count.pending.load(std::memory_order_relaxed);
      if (used + refused + pending == 0) continue;
      readings.push_back({.principal = absl::CHexEscape(principal),
                          .quota = access::kQuotaNames[i],
                          .used = used,
                          .refused = refused,
                          .pending = pending});
    }
  }
  return readings;
}

metrics::Readings ReadAll(const Measured& from) {
  metrics::Readings readings = metrics::ReadNode(*from.node, from.clock);
  const storage::RocksDbStats stats = from.store->Stats();
  readings.topics = from.grpc->topics();
  readings.deleted_topics = from.grpc->deleted_topics();
  readings.subscriptions = from.grpc->subscriptions();
  readings.streams = from.grpc->streams();
  readings.connections = from.grpc->connections();
  readings.connections_refused = from.grpc->connections_refused();
  readings.open_answers_bytes = from.grpc->open_answers()->bytes();
  readings.backup_running = from.backups->running();
  readings.backup_read_bytes = from.backups->bytes_read();
  readings.backup_last_complete_s = from.backups->last_complete_s();
  readings.backups_broken_off = from.backups->broken_off();
  readings.certificate_not_after = from.grpc->certificate_not_after();
  readings.tls_stale = from.grpc->tls_stale();
  readings.open_answers_refused = from.grpc->open_answers()->refused();
  readings.disk_free_bytes = from.housekeeping->disk_free_bytes();
  readings.disk_low = from.housekeeping->disk_low();
  readings.log_lines_lost = runtime::LogLinesLost();
  if (from.roster != nullptr) {
    const std::vector<cell::RosterEntry> members = from.roster->List();
    uint64_t clock_difference_ms = 0;
    for (const cell::RosterEntry& member : members) {
      clock_difference_ms = std::max(clock_difference_ms, member.clock_differs_ms);
    }
    readings.cell = {.leads = from.grpc->NotReady().empty(),
                     .trim_fails = from.roster->trim_fails(),
                     .epoch = from.store->epoch(),
                     .applied_offset = from.store->applied_offset(),
                     .members = static_cast<uint64_t>(std::count_if(
                         members.begin(), members.end(), std::mem_fn(&cell::RosterEntry::present))),
                     .clock_difference_ms = clock_difference_ms};
  }
  if (const access::AccessControl* access = from.guards.access; access != nullptr) {
    readings.access_unauthenticated = access->unauthenticated.load(std::memory_order_relaxed);
    readings.access_denied = access->denied.load(std::memory_order_relaxed);
    readings.access_over_quota = access->over_quota.load(std::memory_order_relaxed);
    readings.access_stale = access->stale();
    readings.quotas = ReadQuotas(access->quota_counts());
  }
  if (from.guards.audit != nullptr) readings.audit_lines_lost = from.guards.audit->lost();
  readings.store =
      metrics::StoreReadings{.wal_bytes = stats.wal_bytes,
                             .memtable_bytes = stats.memtable_bytes,
                             .table_bytes = stats.table_bytes,
                             .block_cache_bytes = stats.block_cache_bytes,
                             .compaction_pending_bytes = stats.compaction_pending_bytes,
                             .damaged_blocks = stats.damaged_blocks,
                             .held_families = stats.held_families,
                             .writes_stopped = stats.writes_stopped,
                             .writes_delayed = stats.writes_delayed};
  return readings;
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

absl::StatusOr<std::unique_ptr<metrics::Exporter>> StartMetrics(const config::Config& config,
                                                                metrics::RpcStats* rpc_stats,
                                                                const Measured& from) {
  return metrics::Exporter::StartIfWanted(
      config.metrics,
      std::make_shared<metrics::Collector>(config::Numbers(config), rpc_stats, config::Version(),
                                           [from] { return ReadAll(from); }),
      {.not_ready = [grpc = from.grpc] { return grpc->NotReady(); },
       .not_in_cell = [grpc = from.grpc] { return grpc->NotInCell(); },
       .not_healthy = [progress = from.progress] { return progress->Trouble(); }});
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
