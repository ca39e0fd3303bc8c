// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/metrics.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"

#include "server/access/access_control.h"
#include "server/api/server.h"
#include "server/base/clock.h"
#include "server/base/process_memory.h"
#include "server/cell/roster.h"
#include "server/config/knobs.h"
#include "server/config/version.h"
#include "server/gateway/gateway_context.h"
#include "server/metrics/core_metrics.h"
#include "server/metrics/family.h"
#include "server/runtime/audit_log.h"
#include "server/runtime/backups.h"
#include "server/runtime/housekeeping.h"
#include "server/runtime/logging.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime {
namespace {

using metrics::AddSample;
using metrics::kCounter;
using metrics::kGauge;
using metrics::kMillis;
using metrics::MakeFamily;
using metrics::Registry;
using storage::RocksDbStats;

constexpr metrics::Field<RocksDbStats> kStoreFields[] = {
    {kGauge, "duetime_store_wal_bytes", "Size of the write-ahead log.", &RocksDbStats::wal_bytes},
    {kGauge, "duetime_store_memtable_bytes", "Memory of memtables.", &RocksDbStats::memtable_bytes},
    {kGauge, "duetime_store_table_bytes", "Size of the table files.", &RocksDbStats::table_bytes},
    {kGauge, "duetime_store_block_cache_bytes", "Memory of the block cache.",
     &RocksDbStats::block_cache_bytes},
    {kGauge, "duetime_store_compaction_pending_bytes", "Bytes that compaction has yet to rewrite.",
     &RocksDbStats::compaction_pending_bytes},
    {kGauge, "duetime_store_damaged_blocks",
     "Blocks of table files that were found damaged since the start.",
     &RocksDbStats::damaged_blocks},
    {kGauge, "duetime_store_stopped_families",
     "Column families whose compactions are stopped because of a damaged block.",
     &RocksDbStats::stopped_families},
    {kGauge, "duetime_store_writes_stopped",
     "1 while the store stops writes because flushes or compactions are behind.",
     &RocksDbStats::writes_stopped},
    {kGauge, "duetime_store_writes_delayed", "1 while the store slows writes down.",
     &RocksDbStats::writes_delayed},
};

void RegisterStore(const Measured& from, Registry* registry) {
  registry->Add([store = from.store](Registry::Families* out) {
    metrics::AddFields<RocksDbStats>(store == nullptr ? RocksDbStats() : store->Stats(),
                                     kStoreFields, out);
  });
  registry->Gauge("duetime_disk_free_bytes", "Free space on the disk of the data directory.",
                  from.housekeeping, &runtime::Housekeeping::disk_free_bytes);
  registry->Gauge(
      "duetime_disk_low",
      "1 while the server refuses new messages because the disk is nearly full (DISK_LOW).",
      from.housekeeping, &runtime::Housekeeping::disk_low);
  registry->Gauge("duetime_backup_running", "1 while a client reads a backup.", from.backups,
                  &runtime::Backups::running);
  registry->Counter("duetime_backup_read_bytes_total", "Bytes that backups have read.",
                    from.backups, &runtime::Backups::bytes_read);
  registry->Gauge(
      "duetime_backup_last_complete_timestamp_seconds",
      "The moment whose state the last complete backup of this run holds; 0 without one.",
      from.backups, &runtime::Backups::last_complete_s);
  registry->Counter("duetime_backups_broken_off_total",
                    "Backups that ended before they were complete.", from.backups,
                    &runtime::Backups::broken_off);
}

void RegisterCalls(const Measured& from, Registry* registry) {
  registry->Gauge("duetime_topics",
                  "Topics, and names reserved for dead letters; the limit is topics_max.", from.api,
                  &api::Server::topics);
  registry->Gauge(
      "duetime_deleted_topics",
      "Names of deleted topics that are kept for their retention; with duetime_topics, the limit "
      "is twice topics_max.",
      from.api, &api::Server::deleted_topics);
  registry->Gauge("duetime_ended_topics",
                  "Names of deleted topics that have ended. Each takes about 400 bytes of memory "
                  "until a new topic takes its number over.",
                  from.api, &api::Server::ended_topics);
  registry->Gauge("duetime_subscriptions",
                  "Named subscriptions of all topics; the limit per topic is subscriptions_max.",
                  from.api, &api::Server::subscriptions);
  registry->Gauge("duetime_connections", "Open connections; the limit is connections_max.",
                  from.shell, &rpc::GrpcServer::connections);
  registry->Counter(
      "duetime_connections_refused_total",
      "Connections closed at once because of connections_max or connections_per_peer_max.",
      from.shell, &rpc::GrpcServer::connections_refused);
  const protocol::AnswerBudget* const answers =
      from.api == nullptr ? nullptr : from.api->open_answers().get();
  registry->Gauge(
      "duetime_open_answers_bytes",
      "Bytes read for calls that are not answered yet; the limit is open_answers_bytes_max.",
      answers, &protocol::AnswerBudget::bytes);
  registry->Counter("duetime_open_answers_refused_total",
                    "Calls refused because of open_answers_bytes_max (OVERLOADED).", answers,
                    &protocol::AnswerBudget::refused);
  registry->Gauge("duetime_streams", "Open Subscribe streams; the limit is streams_max.",
                  from.state, &rpc::ServerState::streams);
  const rpc::TlsFiles* const tls = from.shell == nullptr ? nullptr : from.shell->tls_files();
  registry->Gauge("duetime_tls_certificate_not_after_timestamp_seconds",
                  "When the server's TLS certificate ends; 0 without TLS.", tls,
                  &rpc::TlsFiles::not_after);
  registry->Gauge("duetime_tls_files_stale",
                  "1 while the newest TLS files are refused, and older ones are in force.", tls,
                  &rpc::TlsFiles::stale);
}

void RegisterProcess(const Measured& from, Registry* registry) {
  registry->Gauge(
      "duetime_server_timestamp_seconds", "The server's time, which decides when messages are due.",
      from.clock,
      [](base::Clock& clock) { return static_cast<double>(clock.Read().wall_ms) / kMillis; });
  registry->Gauge("duetime_clock_state",
                  "0: normal. 1: the wall clock was set back, and server time with it. 2: it "
                  "jumped ahead, and server time does not follow. 3: a test clock.",
                  from.clock, &base::Clock::state);
  registry->Counter("duetime_clock_steps_back_total",
                    "How often the wall clock was set back while the server ran.", from.clock,
                    &base::Clock::steps_back);
  registry->Counter("duetime_log_lines_lost_total",
                    "Log lines lost because the reader of stderr was too slow or gone.",
                    [] { return static_cast<double>(runtime::LogLinesLost()); });
  registry->Counter(
      "duetime_audit_lines_lost_total",
      "Lines of the audit log that were lost because its disk was too slow or refused them.",
      from.audit, &runtime::AuditLog::lost);
  registry->Gauge("duetime_resident_memory_bytes", "Memory of the process.",
                  [] { return static_cast<double>(base::ResidentMemoryBytes()); });
}

void AddRefusals(const access::AccessControl* access, Registry::Families* out) {
  auto& refused = out->emplace_back(MakeFamily(
      kCounter, "duetime_access_refused_total",
      "Calls, streams and frames refused by access control, by reason: unauthenticated, denied, "
      "quota."));
  const auto add = [&](const char* reason, std::atomic<uint64_t> access::AccessControl::*count) {
    const uint64_t calls = access == nullptr ? 0 : (access->*count).load(std::memory_order_relaxed);
    AddSample(&refused, static_cast<double>(calls), {{"reason", reason}});
  };
  add("unauthenticated", &access::AccessControl::unauthenticated);
  add("denied", &access::AccessControl::denied);
  add("quota", &access::AccessControl::over_quota);
}

// Only of limits that have counted something. Names of principals are escaped, because Prometheus
// takes UTF-8 only, and a certificate may have any bytes.
void AddQuotas(const access::AccessControl* access, Registry::Families* out) {
  auto used = MakeFamily(
      kCounter, "duetime_quota_used_total",
      "Messages, bytes, streams and calls that quotas of principals admitted, by quota.");
  auto refused =
      MakeFamily(kCounter, "duetime_quota_refused_total",
                 "Requests, streams and calls that quotas of principals refused, by quota.");
  auto pending = MakeFamily(
      kGauge, "duetime_quota_pending",
      "Pending messages or bytes of principals with such a quota, as they were counted last.");
  const auto rows = access == nullptr ? std::vector<access::QuotaCountTable::Row>()
                                      : access->quota_counts().Rows();
  for (const auto& [principal, counts] : rows) {
    for (size_t i = 0; i < access::kQuotaNames.size(); ++i) {
      const std::string quota = access::kQuotaNames[i];
      const auto& count = counts->of(static_cast<access::QuotaName>(i));
      const auto used_now = static_cast<double>(count.used.load(std::memory_order_relaxed));
      const auto refused_now = static_cast<double>(count.refused.load(std::memory_order_relaxed));
      const auto pending_now = static_cast<double>(count.pending.load(std::memory_order_relaxed));
      if (used_now + refused_now + pending_now == 0) continue;
      const metrics::Labels labels = {{"principal", absl::CHexEscape(principal)}, {"quota", quota}};
      AddSample(&used, used_now, labels);
      AddSample(&refused, refused_now, labels);
      if (quota.starts_with("pending_")) AddSample(&pending, pending_now, labels);
    }
  }
  for (auto* const family : {&used, &refused, &pending}) out->push_back(std::move(*family));
}

void RegisterAccess(const access::AccessControl* access, Registry* registry) {
  registry->Add([access](Registry::Families* out) {
    AddRefusals(access, out);
    AddQuotas(access, out);
  });
  registry->Gauge("duetime_access_files_stale",
                  "1 while the newest access files have an error, and older ones are in force.",
                  access, &access::AccessControl::stale);
}

uint64_t PresentMembers(const cell::Roster& roster) {
  const std::vector<cell::RosterEntry> members = roster.List();
  return static_cast<uint64_t>(
      std::count_if(members.begin(), members.end(), std::mem_fn(&cell::RosterEntry::present)));
}

double ClockDifferenceSeconds(const cell::Roster& roster) {
  uint64_t differs_ms = 0;
  for (const cell::RosterEntry& member : roster.List()) {
    differs_ms = std::max(differs_ms, member.clock_differs_ms);
  }
  return static_cast<double>(differs_ms) / kMillis;
}

void RegisterCell(const Measured& from, Registry* registry) {
  const cell::Roster* const roster = from.roster;
  // Only a member of a cell shows these two.
  const auto* const api = roster == nullptr ? nullptr : from.api;
  const auto* const store = roster == nullptr ? nullptr : from.store;
  registry->Gauge("duetime_cell_leads", "1 while this member leads its cell; 0 without a cell.",
                  api, [](const api::Server& server) { return server.NotReady().empty(); });
  registry->Gauge(
      "duetime_cell_epoch",
      "How often a member of the cell has begun to lead, as far as this one has applied "
      "the log; 0 without a cell.",
      store, &storage::RocksDbStore::epoch);
  registry->Gauge("duetime_cell_applied_offset",
                  "Up to where this member has applied the log of its cell.", store,
                  &storage::RocksDbStore::applied_offset);
  registry->Gauge("duetime_cell_trim_failing",
                  "1 while this member leads and could not remove old records from the log.",
                  roster, &cell::Roster::trim_fails);
  registry->Gauge(
      "duetime_cell_members",
      "Members whose reports are at most 30 s old, this one included; 0 without a cell.", roster,
      PresentMembers);
  registry->Gauge("duetime_cell_clock_difference_seconds",
                  "The largest difference between the clocks of two members whose reports are at "
                  "most 30 s old, as far as it is certain; 0 without a cell.",
                  roster, ClockDifferenceSeconds);
}

void AddGateway(const gateway::GatewayContext* gateway, Registry::Families* out) {
  auto reachable = MakeFamily(kGauge, "duetime_gateway_cell_reachable",
                              "Of a gateway: 1 while it has a connection to a member of the cell "
                              "that leads.");
  auto complete =
      MakeFamily(kGauge, "duetime_gateway_cell_complete",
                 "Of a gateway: 1 once the cell has all topics and subscriptions of the "
                 "others. It gets no new messages before.");
  for (size_t i = 0; gateway != nullptr && i < gateway->map.size(); ++i) {
    const metrics::Labels labels = {{"cell", gateway->map.cell(i).name}};
    const bool connected = gateway->channels[i]->GetState(false) == GRPC_CHANNEL_READY;
    AddSample(&reachable, connected ? 1 : 0, labels);
    AddSample(&complete, gateway->complete[i].load() ? 1 : 0, labels);
  }
  out->push_back(std::move(reachable));
  out->push_back(std::move(complete));
}

void AddKnobs(const std::vector<std::pair<std::string, uint64_t>>& knobs, Registry::Families* out) {
  auto& family = out->emplace_back(
      MakeFamily(kGauge, "duetime_config",
                 "The numbers of the configuration in force, each in its own unit."));
  for (const auto& [name, value] : knobs) {
    AddSample(&family, static_cast<double>(value), {{"knob", name}});
  }
}

}  // namespace

metrics::PairOptions PairsOf(const metrics::ExporterOptions& options) {
  const bool open = options.insecure_nonloopback && !options.names_nonloopback;
  return {.pairs_max = open ? 0 : options.pairs_max, .topics = options.topics};
}

void RegisterMetrics(const config::Config& config, const Measured& from, Registry* registry) {
  registry->Add([](Registry::Families* out) {
    AddSample(&out->emplace_back(MakeFamily(kGauge, "duetime_build_info",
                                            "Always 1; the version is in the label.")),
              1, {{"version", config::Version()}});
  });
  metrics::RegisterNode(from.node, registry);
  metrics::RegisterRpc(from.rpc, registry);
  RegisterStore(from, registry);
  RegisterCalls(from, registry);
  RegisterProcess(from, registry);
  RegisterAccess(from.access, registry);
  RegisterCell(from, registry);
  registry->Add([api = from.api](Registry::Families* out) {
    const metrics::PairTable* const pairs = api == nullptr ? nullptr : api->FreshPairs();
    static const metrics::PairTable none({});
    (pairs == nullptr ? none : *pairs).AddFamilies(out);
  });
  registry->Add([gateway = from.gateway](Registry::Families* out) { AddGateway(gateway, out); });
  registry->Counter("duetime_metrics_connections_cut_total",
                    "Connections to metrics_listen closed before their answer, because they were "
                    "too slow or too many.",
                    registry, &Registry::cut);
  registry->Add(
      [knobs = config::Numbers(config)](Registry::Families* out) { AddKnobs(knobs, out); });
}

}  // namespace duetime
