// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/collector.h"

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "server/base/process_memory.h"
#include "server/metrics/family.h"

namespace duetime::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using protocol::ShardStats;

// Units per second.
constexpr double kMillis = 1e3;
constexpr double kMicros = 1e6;

// One exported field of a struct of plain numbers.
template <typename Struct>
struct Field {
  MetricType type{};
  const char* name = nullptr;
  const char* help = nullptr;
  uint64_t Struct::*member = nullptr;
  // The divisor that converts the value to the unit of the name.
  double per_unit = 1;
};

constexpr MetricType kCounter = MetricType::Counter;
constexpr MetricType kGauge = MetricType::Gauge;

constexpr Field<ShardStats> kShardFields[] = {
    {kCounter, "duetime_messages_accepted_total", "Messages accepted.", &ShardStats::accepted},
    {kCounter, "duetime_messages_cancelled_total",
     "Messages cancelled, including those stopped with stop_redelivery.", &ShardStats::cancelled},
    {kCounter, "duetime_messages_rescheduled_total", "Messages rescheduled or replaced.",
     &ShardStats::rescheduled},
    {kCounter, "duetime_changes_merged_total",
     "Messages replaced by a request that shared the write of an earlier change of the same "
     "message.",
     &ShardStats::merged},
    {kCounter, "duetime_messages_expired_total", "Messages that a subscription let expire.",
     &ShardStats::expired},
    {kCounter, "duetime_messages_dead_lettered_total",
     "Messages that a subscription dead-lettered.", &ShardStats::dead_lettered},
    {kCounter, "duetime_dead_letters_refused_total",
     "Messages that stayed because there was no dead-letter topic for them.",
     &ShardStats::dead_letters_refused},
    {kCounter, "duetime_dead_letter_hops_refused_total",
     "Tries to dead-letter a message that had been in 16 dead-letter topics. It stayed.",
     &ShardStats::dead_letter_hops_refused},
    {kCounter, "duetime_messages_dropped_total",
     "Messages that a subscription dropped, by its retention or its deletion.",
     &ShardStats::dropped},
    {kCounter, "duetime_deliveries_retried_total",
     "Deliveries that ended unsettled; the messages come again.", &ShardStats::retried},
    {kCounter, "duetime_messages_loaded_total", "Messages read from disk into the timing wheel.",
     &ShardStats::loaded},
    {kCounter, "duetime_messages_fired_total", "Messages that became due.", &ShardStats::fired},
    {kCounter, "duetime_messages_spilled_total", "Due messages moved to the backlog on disk.",
     &ShardStats::spilled},
    {kCounter, "duetime_messages_read_back_total", "Due messages read back from the backlog.",
     &ShardStats::read_back},
    {kCounter, "duetime_claims_total", "Claims written.", &ShardStats::claims},
    {kCounter, "duetime_deliveries_total", "Deliveries, including redeliveries.",
     &ShardStats::delivered},
    {kCounter, "duetime_redeliveries_total", "Redeliveries.", &ShardStats::redelivered},
    {kCounter, "duetime_acks_total", "Deliveries acknowledged.", &ShardStats::acked},
    {kCounter, "duetime_nacks_total", "Deliveries nacked.", &ShardStats::nacked},
    {kCounter, "duetime_lease_extensions_total", "Leases extended.", &ShardStats::extended},
    {kCounter, "duetime_leases_lost_total",
     "Leases that ended unsettled, by time or with their stream.", &ShardStats::leases_lost},
    {kCounter, "duetime_settlements_refused_total",
     "Settlements and extensions refused because their lease was not current.",
     &ShardStats::settle_refused},
    {kGauge, "duetime_pending_future_loaded",
     "Messages and deadlines in the timing wheel, due within load_window_ms. Later messages are on "
     "disk only and do not count.",
     &ShardStats::wheel_timers},
    {kGauge, "duetime_wheel_bytes", "Memory of the timing wheel.", &ShardStats::wheel_bytes},
    {kGauge, "duetime_due_backlog",
     "Due messages in memory that wait for a subscriber with credit. More may wait on disk: see "
     "duetime_topics_behind.",
     &ShardStats::due_ready},
    {kGauge, "duetime_requests_waiting",
     "Requests that wait for a change of the same message or key.", &ShardStats::waiting},
    {kGauge, "duetime_recurrences", "Recurrences.", &ShardStats::recurrences},
    {kGauge, "duetime_recurrences_stalled",
     "Active recurrences that make no occurrences: unknown time zone, or damaged template.",
     &ShardStats::recurrences_stalled},
    {kCounter, "duetime_recurrences_made_anew_total",
     "Occurrences that were made anew, because a clock that was ahead had made them.",
     &ShardStats::recurrences_made_anew},
    {kGauge, "duetime_operations_running", "Running bulk operations.",
     &ShardStats::operations_running},
    {kGauge, "duetime_topics_behind", "Topics with due messages in the backlog on disk.",
     &ShardStats::topics_behind},
    {kGauge, "duetime_in_flight", "Messages in flight.", &ShardStats::in_flight},
    {kGauge, "duetime_retry_delayed", "Failed messages that wait for their next attempt.",
     &ShardStats::delayed},
    {kGauge, "duetime_subscriptions_slowed",
     "Subscriptions that the shard slows because their attempts fail too fast.",
     &ShardStats::slowed},
    {kGauge, "duetime_settling_streams",
     "Streams and calls with settlements that wait for a later step.", &ShardStats::settling},
    {kGauge, "duetime_messages_blocked",
     "Due messages that wait for another message of their ordering_key.", &ShardStats::blocked},
    {kGauge, "duetime_shard_streams", "Streams attached to the shard.", &ShardStats::streams},
    {kGauge, "duetime_uncommitted_batches", "Batches of the shard that are not on disk yet.",
     &ShardStats::uncommitted_batches},
    {kGauge, "duetime_fired_timestamp_seconds",
     "The timer has fired every message due at or before this time; 0 before the first.",
     &ShardStats::fired_ms, kMillis},
    {kGauge, "duetime_low_watermark_timestamp_seconds",
     "The low watermark: a restart loads messages from this time on.",
     &ShardStats::low_watermark_ms, kMillis},
    {kGauge, "duetime_claim_timestamp_seconds",
     "The claim: messages due at or before this time may be delivered.", &ShardStats::claim_ms,
     kMillis},
    {kGauge, "duetime_load_horizon_timestamp_seconds",
     "The load horizon: messages due before this time have entered the timing wheel.",
     &ShardStats::load_ms, kMillis},
};

constexpr Field<runtime::CommitStats> kCommitFields[] = {
    {kCounter, "duetime_commit_groups_total", "Appends to the journal.",
     &runtime::CommitStats::groups},
    {kCounter, "duetime_commit_syncs_total", "Appends that waited for the disk.",
     &runtime::CommitStats::syncs},
    {kCounter, "duetime_commit_batches_total", "Batches of shards appended.",
     &runtime::CommitStats::batches},
    {kCounter, "duetime_commit_records_total", "Records appended.", &runtime::CommitStats::records},
    {kCounter, "duetime_commit_bytes_total", "Approximate bytes of the records appended.",
     &runtime::CommitStats::bytes},
    {kGauge, "duetime_commit_queue_batches", "Batches that wait for the next append.",
     &runtime::CommitStats::queue_batches},
};

constexpr Field<StoreReadings> kStoreFields[] = {
    {kGauge, "duetime_store_wal_bytes", "Size of the write-ahead log.", &StoreReadings::wal_bytes},
    {kGauge, "duetime_store_memtable_bytes", "Memory of memtables.",
     &StoreReadings::memtable_bytes},
    {kGauge, "duetime_store_table_bytes", "Size of the table files.", &StoreReadings::table_bytes},
    {kGauge, "duetime_store_block_cache_bytes", "Memory of the block cache.",
     &StoreReadings::block_cache_bytes},
    {kGauge, "duetime_store_compaction_pending_bytes", "Bytes that compaction has yet to rewrite.",
     &StoreReadings::compaction_pending_bytes},
    {kGauge, "duetime_store_damaged_blocks",
     "Blocks of table files that were found damaged since the start.",
     &StoreReadings::damaged_blocks},
    {kGauge, "duetime_store_held_families",
     "Column families whose compactions are stopped because of a damaged block.",
     &StoreReadings::held_families},
};

using Families = std::vector<MetricFamily>;

Labels ShardLabel(size_t shard) { return {{"shard", std::to_string(shard)}}; }

void AddGauge(Families* out, const std::string& name, const std::string& help, double value,
              Labels labels = {}) {
  AddSample(&out->emplace_back(MakeFamily(kGauge, name, help)), value, std::move(labels));
}

void AddCounter(Families* out, const std::string& name, const std::string& help, double value) {
  AddSample(&out->emplace_back(MakeFamily(kCounter, name, help)), value, {});
}

template <typename Struct>
double Scaled(const Struct& stats, const Field<Struct>& field) {
  return static_cast<double>(stats.*field.member) / field.per_unit;
}

template <typename Struct>
void AddFields(Families* out, const Struct& stats, std::span<const Field<Struct>> fields) {
  for (const Field<Struct>& field : fields) {
    AddSample(&out->emplace_back(MakeFamily(field.type, field.name, field.help)),
              Scaled(stats, field));
  }
}

void AddShards(Families* out, const std::vector<ShardStats>& shards) {
  for (const Field<ShardStats>& field : kShardFields) {
    MetricFamily& family = out->emplace_back(MakeFamily(field.type, field.name, field.help));
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      AddSample(&family, Scaled(shards[shard], field), ShardLabel(shard));
    }
  }
  MetricFamily lateness = MakeFamily(
      MetricType::Histogram, "duetime_delivery_lateness_seconds",
      "Time from the deliver_time of a message to its first delivery, in whole milliseconds.");
  MetricFamily failed = MakeFamily(kGauge, "duetime_shard_failed",
                                   "1 once a write or a read of the shard has failed.");
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const ShardStats& stats = shards[shard];
    AddHistogram(&lateness, protocol::kLatenessBoundsMs, stats.lateness, kMillis,
                 static_cast<double>(stats.lateness_sum_ms), ShardLabel(shard));
    AddSample(&failed, stats.failed ? 1 : 0, ShardLabel(shard));
  }
  out->push_back(std::move(lateness));
  out->push_back(std::move(failed));
}

// One mailbox per shard; the last one is the catalog's.
void AddMailboxes(Families* out, const std::vector<runtime::MailboxStats>& mailboxes) {
  MetricFamily commands = MakeFamily(
      kGauge, "duetime_mailbox_commands",
      "Requests that wait for the shard or the catalog; the limit is mailbox_commands_max.");
  MetricFamily bytes = MakeFamily(kGauge, "duetime_mailbox_bytes",
                                  "Bytes of the requests that wait for the shard or the catalog; "
                                  "the limit is mailbox_bytes_max.");
  MetricFamily refused = MakeFamily(kCounter, "duetime_mailbox_refused_total",
                                    "Requests refused because the mailbox was full (OVERLOADED).");
  for (size_t shard = 0; shard < mailboxes.size(); ++shard) {
    const runtime::MailboxStats& stats = mailboxes[shard];
    const bool is_catalog = shard + 1 == mailboxes.size();
    const auto label = is_catalog ? Labels{{"shard", "catalog"}} : ShardLabel(shard);
    AddSample(&commands, static_cast<double>(stats.commands), label);
    AddSample(&bytes, static_cast<double>(stats.bytes), label);
    AddSample(&refused, static_cast<double>(stats.refused), label);
  }
  out->push_back(std::move(commands));
  out->push_back(std::move(bytes));
  out->push_back(std::move(refused));
}

void AddCommit(Families* out, const runtime::CommitStats& commit) {
  AddFields<runtime::CommitStats>(out, commit, kCommitFields);
  AddHistogram(&out->emplace_back(MakeFamily(MetricType::Histogram, "duetime_commit_append_seconds",
                                             "Time of one append, including the sync.")),
               runtime::kAppendBoundsMicros, commit.append_latency, kMicros,
               static_cast<double>(commit.append_micros));
}

template <size_t kSize>
std::array<uint64_t, kSize> Load(const std::array<std::atomic<uint64_t>, kSize>& counters) {
  std::array<uint64_t, kSize> values{};
  for (size_t i = 0; i < kSize; ++i) values[i] = counters[i].load(std::memory_order_relaxed);
  return values;
}

void AddRpc(Families* out, const RpcStats& rpc) {
  MetricFamily started = MakeFamily(kCounter, "duetime_rpc_started_total", "Calls started.");
  MetricFamily ended = MakeFamily(kCounter, "duetime_rpc_ended_total",
                                  "Calls ended, by gRPC status code (0 is OK).");
  MetricFamily in_flight = MakeFamily(kGauge, "duetime_rpc_in_flight", "Calls in progress.");
  MetricFamily latency = MakeFamily(MetricType::Histogram, "duetime_rpc_latency_seconds",
                                    "Time from the arrival of a unary request to its answer.");
  for (size_t i = 0; i < rpc.names.size(); ++i) {
    const RpcMethodStats& method = rpc.methods[i];
    const std::string& name = rpc.names[i];
    const Labels label = {{"method", name}};
    // Read `ended` before `started`, so that a call that ends meanwhile cannot make the difference
    // negative.
    const auto codes = Load(method.ended);
    const uint64_t begun = method.started.load(std::memory_order_relaxed);
    uint64_t over = 0;
    for (size_t code = 0; code < codes.size(); ++code) {
      over += codes[code];
      // Most codes never occur, so a series other than OK appears with its first call.
      if (codes[code] == 0 && code != 0) continue;
      AddSample(&ended, static_cast<double>(codes[code]),
                {{"method", name}, {"code", std::to_string(code)}});
    }
    AddSample(&started, static_cast<double>(begun), label);
    AddSample(&in_flight, static_cast<double>(begun > over ? begun - over : 0), label);
    AddHistogram(&latency, kRpcLatencyBoundsMicros, Load(method.latency), kMicros,
                 static_cast<double>(method.latency_sum_micros.load(std::memory_order_relaxed)),
                 label);
  }
  for (MetricFamily* family : {&started, &ended, &in_flight, &latency}) {
    out->push_back(std::move(*family));
  }
  AddSample(&out->emplace_back(
                MakeFamily(kCounter, "duetime_connections_cut_total",
                           "Connections closed because the client reset too many calls, sent too "
                           "many frames without a call or message, opened too many calls before it "
                           "acknowledged the server's settings, or had the most unfinished "
                           "requests.")),
            static_cast<double>(rpc.connections_cut.load(std::memory_order_relaxed)));
  AddSample(
      &out->emplace_back(MakeFamily(
          kCounter, "duetime_answers_dropped_total",
          "Answers dropped, so that their calls ended with CANCELLED, because clients left more "
          "than untaken_answers_bytes_max unread.")),
      static_cast<double>(rpc.answers_dropped.load(std::memory_order_relaxed)));
  AddGauge(out, "duetime_errors_delayed",
           "Refused calls whose errors are delayed, because their clients are refused too often.",
           static_cast<double>(rpc.errors_delayed.load(std::memory_order_relaxed)));
  AddGauge(out, "duetime_stream_unsent_bytes",
           "Bytes of deliveries that wait for Subscribe streams to send them; the limit per stream "
           "is stream_unsent_bytes_max.",
           static_cast<double>(rpc.unsent_bytes.load(std::memory_order_relaxed)));
}

void AddStore(Families* out, const Readings& readings, uint64_t damaged_records) {
  AddFields<StoreReadings>(out, readings.store, kStoreFields);
  AddGauge(out, "duetime_store_writes_stopped",
           "1 while the store stops writes because flushes or compactions are behind.",
           readings.store.writes_stopped ? 1 : 0);
  AddGauge(out, "duetime_store_writes_delayed", "1 while the store slows writes down.",
           readings.store.writes_delayed ? 1 : 0);
  AddSample(&out->emplace_back(MakeFamily(kCounter, "duetime_damaged_records_total",
                                          "Due messages whose record on disk is damaged.")),
            static_cast<double>(damaged_records));
  AddGauge(out, "duetime_storage_failed",
           "1 once a write to the journal or a read has failed: the server accepts nothing until a "
           "restart.",
           readings.failed ? 1 : 0);
  AddGauge(out, "duetime_disk_free_bytes", "Free space on the disk of the data directory.",
           static_cast<double>(readings.disk_free_bytes));
  AddGauge(out, "duetime_disk_low",
           "1 while the server refuses new messages because the disk is nearly full (DISK_LOW).",
           readings.disk_low ? 1 : 0);
}

void AddGateway(const std::vector<GatewayCellReading>& cells, Families* out) {
  auto reachable = MakeFamily(kGauge, "duetime_gateway_cell_reachable",
                              "Of a gateway: 1 while it has a connection to a member of the cell "
                              "that leads.");
  auto complete =
      MakeFamily(kGauge, "duetime_gateway_cell_complete",
                 "Of a gateway: 1 once the cell has all topics and subscriptions of the "
                 "others. It gets no new messages before.");
  for (const GatewayCellReading& cell : cells) {
    AddSample(&reachable, cell.reachable ? 1 : 0, {{"cell", cell.name}});
    AddSample(&complete, cell.complete ? 1 : 0, {{"cell", cell.name}});
  }
  out->push_back(std::move(reachable));
  out->push_back(std::move(complete));
}

void AddCell(const CellReadings& cell, std::vector<MetricFamily>* out) {
  AddGauge(out, "duetime_cell_leads", "1 while this member leads its cell; 0 without a cell.",
           cell.leads ? 1 : 0);
  AddGauge(out, "duetime_cell_epoch",
           "How often a member of the cell has begun to lead, as far as this one has applied the "
           "log; 0 without a cell.",
           static_cast<double>(cell.epoch));
  AddGauge(out, "duetime_cell_applied_offset",
           "Up to where this member has applied the log of its cell.",
           static_cast<double>(cell.applied_offset));
  AddGauge(out, "duetime_cell_trim_failing",
           "1 while this member leads and could not remove old records from the log.",
           cell.trim_fails ? 1 : 0);
  AddGauge(out, "duetime_cell_members",
           "Members whose reports are at most 30 s old, this one included; 0 without a cell.",
           static_cast<double>(cell.members));
  AddGauge(out, "duetime_cell_clock_difference_seconds",
           "The largest difference between the clocks of two members whose reports are at most 30 "
           "s old, as far as it is certain; 0 without a cell.",
           static_cast<double>(cell.clock_difference_ms) / 1000);
}

void AddQuotas(const std::vector<QuotaReading>& quotas, std::vector<MetricFamily>* out) {
  const auto add = [&](auto type, const char* name, const char* help, uint64_t QuotaReading::*count,
                       std::string_view prefix) {
    MetricFamily& family = out->emplace_back(MakeFamily(type, name, help));
    for (const QuotaReading& quota : quotas) {
      if (!quota.quota.starts_with(prefix)) continue;
      AddSample(&family, static_cast<double>(quota.*count),
                {{"principal", quota.principal}, {"quota", quota.quota}});
    }
  };
  add(kCounter, "duetime_quota_used_total",
      "Messages, bytes, streams and calls that quotas of principals admitted, by quota.",
      &QuotaReading::used, "");
  add(kCounter, "duetime_quota_refused_total",
      "Requests, streams and calls that quotas of principals refused, by quota.",
      &QuotaReading::refused, "");
  add(kGauge, "duetime_quota_pending",
      "Pending messages or bytes of principals with such a quota, as they were counted last.",
      &QuotaReading::pending, "pending_");
}

void AddServer(Families* out, const Readings& readings) {
  AddGauge(out, "duetime_topics",
           "Topics, and names reserved for dead letters; the limit is topics_max.",
           static_cast<double>(readings.topics));
  AddGauge(out, "duetime_deleted_topics",
           "Names of deleted topics; with duetime_topics, the limit is twice topics_max.",
           static_cast<double>(readings.deleted_topics));
  AddGauge(out, "duetime_subscriptions",
           "Named subscriptions of all topics; the limit per topic is subscriptions_max.",
           static_cast<double>(readings.subscriptions));
  AddGauge(out, "duetime_connections", "Open connections; the limit is connections_max.",
           static_cast<double>(readings.connections));
  AddCounter(out, "duetime_connections_refused_total",
             "Connections closed at once because of connections_max or connections_per_peer_max.",
             static_cast<double>(readings.connections_refused));
  AddGauge(out, "duetime_open_answers_bytes",
           "Bytes read for calls that are not answered yet; the limit is open_answers_bytes_max.",
           static_cast<double>(readings.open_answers_bytes));
  AddCounter(out, "duetime_open_answers_refused_total",
             "Calls refused because of open_answers_bytes_max (OVERLOADED).",
             static_cast<double>(readings.open_answers_refused));
  AddGauge(out, "duetime_streams", "Open Subscribe streams; the limit is streams_max.",
           static_cast<double>(readings.streams));
  AddGauge(out, "duetime_server_timestamp_seconds",
           "The server's time, which decides when messages are due.",
           static_cast<double>(readings.now.wall_ms) / kMillis);
  AddGauge(
      out, "duetime_clock_state",
      "0: normal. 1: the wall clock was set back, and server time with it. 2: it jumped ahead, "
      "and server time does not follow.",
      static_cast<double>(readings.clock_state));
  AddCounter(out, "duetime_clock_steps_back_total",
             "How often the wall clock was set back while the server ran.",
             static_cast<double>(readings.clock_steps_back));
  AddCounter(out, "duetime_log_lines_lost_total",
             "Log lines lost because the reader of stderr was too slow or gone.",
             static_cast<double>(readings.log_lines_lost));
  AddCounter(out, "duetime_audit_lines_lost_total",
             "Lines of the audit log that were lost because its disk was too slow or refused them.",
             static_cast<double>(readings.audit_lines_lost));
  AddGauge(out, "duetime_tls_certificate_not_after_timestamp_seconds",
           "When the server's TLS certificate ends; 0 without TLS.",
           static_cast<double>(readings.certificate_not_after));
  AddGauge(out, "duetime_tls_files_stale",
           "1 while the newest TLS files are refused, and older ones are in force.",
           readings.tls_stale ? 1 : 0);
  AddGauge(out, "duetime_backup_running", "1 while a client reads a backup.",
           readings.backup_running ? 1 : 0);
  AddCounter(out, "duetime_backup_read_bytes_total", "Bytes that backups have read.",
             static_cast<double>(readings.backup_read_bytes));
  AddGauge(out, "duetime_backup_last_complete_timestamp_seconds",
           "The moment whose state the last complete backup of this run holds; 0 without one.",
           static_cast<double>(readings.backup_last_complete_s));
  AddCounter(out, "duetime_backups_broken_off_total",
             "Backups that ended before they were complete.",
             static_cast<double>(readings.backups_broken_off));
  MetricFamily& refused = out->emplace_back(MakeFamily(
      kCounter, "duetime_access_refused_total",
      "Calls, streams and frames refused by access control, by reason: unauthenticated, denied, "
      "quota."));
  AddSample(&refused, static_cast<double>(readings.access_unauthenticated),
            {{"reason", "unauthenticated"}});
  AddSample(&refused, static_cast<double>(readings.access_denied), {{"reason", "denied"}});
  AddSample(&refused, static_cast<double>(readings.access_over_quota), {{"reason", "quota"}});
  AddQuotas(readings.quotas, out);
  AddGauge(out, "duetime_access_files_stale",
           "1 while the newest access files have an error, and older ones are in force.",
           readings.access_stale ? 1 : 0);
  AddGauge(out, "duetime_resident_memory_bytes", "Memory of the process.",
           static_cast<double>(base::ResidentMemoryBytes()));
}

void AddKnobs(Families* out, const KnobNumbers& knobs) {
  MetricFamily& family = out->emplace_back(
      MakeFamily(kGauge, "duetime_config",
                 "The numbers of the configuration in force, each in its own unit."));
  for (const auto& [name, value] : knobs) {
    AddSample(&family, static_cast<double>(value), {{"knob", name}});
  }
}

}  // namespace

Readings ReadNode(const runtime::Node& node, base::Clock* clock) {
  Readings readings;
  readings.shards = node.shard_stats();
  readings.mailboxes = node.mailbox_stats();
  readings.commit = node.commit_stats();
  readings.failed = node.failed();
  readings.now = clock->Read();
  readings.clock_state = clock->state();
  readings.clock_steps_back = clock->steps_back();
  return readings;
}

Collector::Collector(KnobNumbers knobs, const RpcStats* rpc, std::string version,
                     std::function<Readings()> read)
    : knobs_(std::move(knobs)), rpc_(rpc), version_(std::move(version)), read_(std::move(read)) {}

std::vector<MetricFamily> Collector::Collect() const {
  const Readings readings = read_();
  Families families;
  AddGauge(&families, "duetime_build_info", "Always 1; the version is in the label.", 1,
           {{"version", version_}});
  AddShards(&families, readings.shards);
  AddMailboxes(&families, readings.mailboxes);
  AddCommit(&families, readings.commit);
  AddRpc(&families, *rpc_);
  AddStore(&families, readings, rpc_->damaged_records.load(std::memory_order_relaxed));
  AddServer(&families, readings);
  AddCell(readings.cell, &families);
  AddGateway(readings.gateway_cells, &families);
  AddSample(&families.emplace_back(
                MakeFamily(kCounter, "duetime_metrics_connections_cut_total",
                           "Connections to metrics_listen closed before their answer, because they "
                           "were too slow or too many.")),
            static_cast<double>(cut_.load(std::memory_order_relaxed)));
  AddKnobs(&families, knobs_);
  return families;
}

}  // namespace duetime::metrics
