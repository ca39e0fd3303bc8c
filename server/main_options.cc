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

storage::RocksDbStoreOptions StoreOptionsOf(const storage::StoreOptions& knobs) {
  const unsigned half_the_cores = std::thread::hardware_concurrency() / 2;
  storage::RocksDbStoreOptions options{knobs};
  options.shards_if_new =
      static_cast<uint16_t>(std::clamp<unsigned>(half_the_cores, 1, protocol::kShardCountMax));
  options.log = LogStore;
  return options;
}

runtime::StoreTasks TasksOf(storage::RocksDbStore* store) {
  return {.disk_free = [store] { return store->DiskFreeBytes(); },
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
