// SPDX-License-Identifier: Apache-2.0
//
// Collector: builds all exported metrics at each scrape.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <string>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"
#include "server/protocol/shard_stats.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/node.h"

namespace duetime::metrics {

// Figures of the store.
struct StoreReadings {
  uint64_t wal_bytes = 0;
  uint64_t memtable_bytes = 0;
  uint64_t table_bytes = 0;
  uint64_t block_cache_bytes = 0;
  uint64_t compaction_pending_bytes = 0;
  uint64_t damaged_blocks = 0;
  uint64_t held_families = 0;
  bool writes_stopped = false;
  bool writes_delayed = false;
};

// Figures of a member of a cell; zeros without one.
struct CellReadings {
  bool leads = false;
  bool trim_fails = false;
  uint64_t epoch = 0;
  uint64_t applied_offset = 0;
  // With a recent report, this one included.
  uint64_t members = 0;
  // Between the clocks of two of them, at least.
  uint64_t clock_difference_ms = 0;
};

// A cell of a gateway.
struct GatewayCellReading {
  std::string name;
  // There is a connection to a member that leads.
  bool reachable = false;
  // It has all topics and subscriptions of the others.
  bool complete = false;
};

// What a principal used of one of its quotas, and was refused, since the start.
struct QuotaReading {
  std::string principal;
  std::string quota;
  uint64_t used = 0;
  uint64_t refused = 0;
  // 0 for quotas that count nothing pending.
  uint64_t pending = 0;
};

// A snapshot of the daemon. Plain data, so that the collector depends on no other room's classes.
struct Readings {
  // One element per shard. `mailboxes` has one more, for the catalog.
  std::vector<protocol::ShardStats> shards;
  std::vector<runtime::MailboxStats> mailboxes;
  runtime::CommitStats commit;
  StoreReadings store;
  CellReadings cell;
  // Empty without a gateway.
  std::vector<GatewayCellReading> gateway_cells;
  uint64_t topics = 0;
  uint64_t deleted_topics = 0;
  uint64_t subscriptions = 0;
  uint64_t streams = 0;
  uint64_t log_lines_lost = 0;
  uint64_t audit_lines_lost = 0;
  uint64_t access_unauthenticated = 0;
  uint64_t access_denied = 0;
  uint64_t access_over_quota = 0;
  // For a bounded number of principals.
  std::vector<QuotaReading> quotas;
  // 0 without TLS.
  int64_t certificate_not_after = 0;
  bool access_stale = false;
  bool tls_stale = false;
  bool backup_running = false;
  uint64_t backup_read_bytes = 0;
  uint64_t backup_last_complete_s = 0;
  uint64_t backups_broken_off = 0;
  uint64_t connections = 0;
  uint64_t connections_refused = 0;
  uint64_t open_answers_bytes = 0;
  uint64_t open_answers_refused = 0;
  uint64_t disk_free_bytes = 0;
  bool disk_low = false;
  bool failed = false;
  base::Now now;
  base::ClockState clock_state = base::ClockState::kNormal;
  uint64_t clock_steps_back = 0;
};

// The numeric knobs of the configuration in force, by name, each in the knob's unit.
using KnobNumbers = std::vector<std::pair<std::string, uint64_t>>;

// Fills in the readings of the node and of the clock.
Readings ReadNode(const runtime::Node& node, base::Clock* clock);

// Builds Prometheus' metric families from readings. Costs nothing between two scrapes. Labels are
// bounded: shard, method, code, knob, and principals with a quota. Thread safety: any thread may
// call Collect as long as the objects that `read` uses exist.
class Collector final : public prometheus::Collectable {
 public:
  // REQUIRES: `rpc` outlives the collector.
  Collector(KnobNumbers knobs, const RpcStats* rpc, std::string version,
            std::function<Readings()> read);

  std::vector<prometheus::MetricFamily> Collect() const override;

  // Counts a connection to the exporter that was closed before its answer.
  void CountCut() { cut_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const KnobNumbers knobs_;
  const RpcStats* const rpc_;
  const std::string version_;
  const std::function<Readings()> read_;
  std::atomic<uint64_t> cut_{0};
};

}  // namespace duetime::metrics
