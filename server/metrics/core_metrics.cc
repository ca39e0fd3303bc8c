// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/core_metrics.h"

#include <array>
#include <atomic>
#include <string>
#include <utility>

#include "server/metrics/family.h"

namespace duetime::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using protocol::ShardStats;
using runtime::CommitStats;

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
    {kGauge, "duetime_recent_messages_bytes",
     "Memory for the messages that were accepted last, so that their cancels read nothing.",
     &ShardStats::recent_bytes},
    {kCounter, "duetime_messages_cancelled_unread_total",
     "Cancelled messages that were accepted so recently that the cancel did not read them.",
     &ShardStats::cancelled_unread},
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
    {kGauge, "duetime_timer_next_timestamp_seconds",
     "What the timer fires next is due then, or later; 0 if nothing is loaded. A time that has "
     "passed: the shard is behind.",
     &ShardStats::timer_next_ms, kMillis},
    {kGauge, "duetime_low_watermark_timestamp_seconds",
     "The low watermark: a restart loads messages from this time on.",
     &ShardStats::low_watermark_ms, kMillis},
    {kGauge, "duetime_claim_timestamp_seconds",
     "The claim: messages due at or before this time may be delivered.", &ShardStats::claim_ms,
     kMillis},
    {kGauge, "duetime_load_horizon_timestamp_seconds",
     "The load horizon: messages due before this time have entered the timing wheel.",
     &ShardStats::load_ms, kMillis},
    {kGauge, "duetime_shard_failed", "1 once a write or a read of the shard has failed.",
     &ShardStats::failed},
};

constexpr Field<CommitStats> kCommitFields[] = {
    {kCounter, "duetime_commit_groups_total", "Appends to the journal.", &CommitStats::groups},
    {kCounter, "duetime_commit_syncs_total", "Appends that waited for the disk.",
     &CommitStats::syncs},
    {kCounter, "duetime_commit_batches_total", "Batches of shards appended.",
     &CommitStats::batches},
    {kCounter, "duetime_commit_records_total", "Records appended.", &CommitStats::records},
    {kCounter, "duetime_commit_bytes_total", "Approximate bytes of the records appended.",
     &CommitStats::bytes},
    {kGauge, "duetime_commit_queue_batches", "Batches that wait for the next append.",
     &CommitStats::queue_batches},
};

Labels ShardLabel(size_t shard) { return {{"shard", std::to_string(shard)}}; }

template <size_t kSize>
std::array<uint64_t, kSize> Load(const std::array<std::atomic<uint64_t>, kSize>& counters) {
  std::array<uint64_t, kSize> values{};
  for (size_t i = 0; i < kSize; ++i) values[i] = counters[i].load(std::memory_order_relaxed);
  return values;
}

void AddMethods(const RpcStats& rpc, Registry::Families* out) {
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
}

}  // namespace

void AddShards(const std::vector<ShardStats>& shards, Registry::Families* out) {
  for (const Field<ShardStats>& field : kShardFields) {
    MetricFamily& family = out->emplace_back(MakeFamily(field.type, field.name, field.help));
    for (size_t shard = 0; shard < shards.size(); ++shard) {
      AddSample(&family, field.Of(shards[shard]), ShardLabel(shard));
    }
  }
  MetricFamily& lateness = out->emplace_back(MakeFamily(
      MetricType::Histogram, "duetime_delivery_lateness_seconds",
      "Time from the deliver_time of a message to its first delivery, in whole milliseconds."));
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    const ShardStats& stats = shards[shard];
    AddHistogram(&lateness, protocol::kLatenessBoundsMs, stats.lateness, kMillis,
                 static_cast<double>(stats.lateness_sum_ms), ShardLabel(shard));
  }
}

void AddMailboxes(const std::vector<runtime::MailboxStats>& mailboxes, Registry::Families* out) {
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

void AddCommit(const CommitStats& commit, Registry::Families* out) {
  AddFields<CommitStats>(commit, kCommitFields, out);
  AddHistogram(&out->emplace_back(MakeFamily(MetricType::Histogram, "duetime_commit_append_seconds",
                                             "Time of one append, including the sync.")),
               runtime::kAppendBoundsMicros, commit.append_latency, kMicros,
               static_cast<double>(commit.append_micros));
}

void RegisterNode(const runtime::Node* node, Registry* registry) {
  registry->Add([node](Registry::Families* out) {
    const bool none = node == nullptr;
    AddShards(none ? std::vector<ShardStats>() : node->shard_stats(), out);
    AddMailboxes(none ? std::vector<runtime::MailboxStats>() : node->mailbox_stats(), out);
    AddCommit(none ? CommitStats() : node->commit_stats(), out);
  });
  registry->Gauge(
      "duetime_storage_failed",
      "1 once a write to the journal or a read has failed: the server accepts nothing until a "
      "restart.",
      node, &runtime::Node::failed);
}

void RegisterRpc(const RpcStats* rpc, Registry* registry) {
  registry->Add([rpc](Registry::Families* out) { AddMethods(*rpc, out); });
  registry->Counter("duetime_connections_cut_total",
                    "Connections closed because the client reset too many calls, sent too many "
                    "frames without a call or message, opened too many calls before it "
                    "acknowledged the server's settings, or had the most unfinished requests.",
                    rpc, &RpcStats::connections_cut);
  registry->Counter("duetime_answers_dropped_total",
                    "Answers dropped, so that their calls ended with CANCELLED, because clients "
                    "left more than untaken_answers_bytes_max unread.",
                    rpc, &RpcStats::answers_dropped);
  registry->Gauge("duetime_errors_delayed",
                  "Refused calls, and batches with refused items, whose answers are delayed "
                  "because their clients are refused too often.",
                  rpc, &RpcStats::errors_delayed);
  registry->Gauge("duetime_stream_unsent_bytes",
                  "Bytes of deliveries that wait for Subscribe streams to send them; the limit per "
                  "stream is stream_unsent_bytes_max.",
                  rpc, &RpcStats::unsent_bytes);
  registry->Counter("duetime_damaged_records_total",
                    "Due messages whose record on disk is damaged.", rpc,
                    &RpcStats::damaged_records);
}

}  // namespace duetime::metrics
