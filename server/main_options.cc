// SPDX-License-Identifier: Apache-2.0
#include "server/main_options.h"

#include <algorithm>
#include <spdlog/spdlog.h>
#include <string>
#include <sysexits.h>
#include <thread>

namespace duetime {
namespace {

void LogStore(storage::RocksDbStoreOptions::LogLevel level, absl::string_view text) {
  const bool error = level == storage::RocksDbStoreOptions::LogLevel::kError;
  spdlog::log(error ? spdlog::level::err : spdlog::level::warn, "store: {}", std::string(text));
}

}  // namespace

storage::RocksDbStoreOptions StoreOptionsOf(const config::Config& config) {
  const unsigned half_the_cores = std::thread::hardware_concurrency() / 2;
  storage::RocksDbStoreOptions options;
  options.data_dir = config.data_dir;
  options.shards = static_cast<uint16_t>(config.shards);
  options.shards_if_new =
      static_cast<uint16_t>(std::clamp<unsigned>(half_the_cores, 1, protocol::kShardCountMax));
  options.block_cache_bytes = config.block_cache_bytes;
  options.write_buffer_bytes = config.write_buffer_bytes;
  options.wal_bytes_max = config.wal_bytes_max;
  options.log = LogStore;
  return options;
}

runtime::NodeOptions NodeOptionsOf(const config::Config& config, uint16_t shards) {
  runtime::NodeOptions options;
  options.limits.load_window_ms = config.load_window_ms;
  options.limits.loaded_max = config.loaded_max;
  options.limits.due_max = config.due_max;
  options.limits.due_idle_max = config.due_idle_max;
  options.limits.frame_messages_max = config.frame_messages_max;
  options.limits.frame_bytes_max = config.frame_bytes_max;
  options.limits.claim_ahead_ms = config.claim_ahead_ms;
  options.limits.claim_renew_ms = config.claim_renew_ms;
  options.limits.spill_age_ms = config.spill_age_ms;
  options.limits.low_watermark_period_ms = config.low_watermark_period_ms;
  options.limits.tombstone_retention_ms = config.tombstone_retention_ms;
  options.limits.request_retention_ms = config.request_retention_ms;
  options.limits.waiting_max = config.waiting_max;
  options.limits.recurrences_max = config.recurrences_max;
  options.limits.recurrence_bytes_max = config.recurrence_bytes_max;
  options.limits.operations_max = config.operations_max;
  // Each shard hands out its share.
  const auto share = [shards](uint64_t rate) {
    return static_cast<uint32_t>((rate + shards - 1) / shards);
  };
  options.limits.startup_rate = share(config.startup_rate);
  options.limits.failure_rate = share(config.failure_rate);
  options.mailbox_commands_max = config.mailbox_commands_max;
  options.mailbox_bytes_max = config.mailbox_bytes_max;
  options.group_records_max = config.group_records_max;
  options.group_bytes_max = config.group_bytes_max;
  return options;
}

runtime::HousekeepingOptions HousekeepingOptionsOf(const config::Config& config,
                                                   storage::RocksDbStore* store) {
  return {.disk_free_min_bytes = config.disk_free_min_bytes,
          .disk_free = [store] { return store->DiskFreeBytes(); },
          .write_witness = [store] { return store->WriteWitness(); },
          .drop_expired = [store](uint64_t until_ms) { store->DropExpired(until_ms); }};
}

metrics::Readings ReadAll(const Measured& from) {
  metrics::Readings readings = metrics::ReadNode(*from.node, from.clock);
  const storage::RocksDbStats stats = from.store->Stats();
  readings.topics = from.grpc->topics();
  readings.subscriptions = from.grpc->subscriptions();
  readings.streams = from.grpc->streams();
  readings.disk_free_bytes = from.housekeeping->disk_free_bytes();
  readings.disk_low = from.housekeeping->disk_low();
  readings.store =
      metrics::StoreReadings{.wal_bytes = stats.wal_bytes,
                             .memtable_bytes = stats.memtable_bytes,
                             .table_bytes = stats.table_bytes,
                             .block_cache_bytes = stats.block_cache_bytes,
                             .compaction_pending_bytes = stats.compaction_pending_bytes,
                             .writes_stopped = stats.writes_stopped,
                             .writes_delayed = stats.writes_delayed};
  return readings;
}

int StoreExitCode(const absl::Status& status) {
  if (absl::IsDataLoss(status)) return EX_DATAERR;
  if (absl::IsUnavailable(status)) return EX_CANTCREAT;
  return 1;
}

}  // namespace duetime
