// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_store.h"

#include <optional>

#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_status.h"

namespace duetime::storage {
namespace {

StoreState StateOf(const RocksDbDatabase& database) {
  return {.epoch = database.epoch(),
          .first_sequence = database.first_sequence(),
          .shard_count = database.shard_count(),
          .log_place =
              database.in_cell() ? std::optional<LogPlace>(database.log_place()) : std::nullopt};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RocksDbStore>> RocksDbStore::Open(
    const RocksDbStoreOptions& options) {
  absl::StatusOr<std::unique_ptr<RocksDbDatabase>> database = RocksDbDatabase::Open(options);
  if (!database.ok()) return database.status();
  if (absl::Status status = (*database)->CheckMeta(); !status.ok()) return status;
  return std::unique_ptr<RocksDbStore>(new RocksDbStore(database->release()));
}

RocksDbStore::RocksDbStore(RocksDbDatabase* database)
    : RecordStore(std::unique_ptr<KvStore>(database), StateOf(*database)), database_(database) {}
RocksDbStore::~RocksDbStore() = default;

absl::StatusOr<uint64_t> RocksDbStore::SyncApplied() {
  const uint64_t offset = applied_offset();
  const rocksdb::Status synced = database_->db()->SyncWAL();
  if (!synced.ok()) return FromRocksDb(database_->Fence(synced), "sync the write-ahead log");
  // After a failed sync a later one may succeed, although the pages are lost.
  if (database_->fenced()) return absl::FailedPreconditionError("the store is fenced");
  return offset;
}

absl::Status RocksDbStore::WriteWitness() {
  database_->StopDamagedCompactions();
  return database_->WriteWitness();
}

absl::Status RocksDbStore::WriteCheckpoint(const std::string& path) {
  return database_->WriteCheckpoint(path);
}

absl::Status RocksDbStore::Close() { return database_->Close(); }

absl::StatusOr<uint64_t> RocksDbStore::DiskFreeBytes() const {
  return FreeBytes(database_->data_dir());
}

bool RocksDbStore::ReopenWouldHelp() const {
  // Open writes the content of the logs to tables, and begins a log.
  constexpr uint64_t kMoreBytes = 16 << 20;
  const RocksDbDatabase& database = *database_;
  return database.fence_may_pass() &&
         ProbeDirectory(database.data_dir(), database.WalBytes() + kMoreBytes).ok();
}

RocksDbStats RocksDbStore::Stats() const {
  const RocksDbDatabase& database = *database_;
  rocksdb::DB* db = database.db();
  const auto sum = [db](const std::string& property) {
    uint64_t value = 0;
    return db->GetAggregatedIntProperty(property, &value) ? value : 0;
  };
  const auto one = [db](const std::string& property) {
    uint64_t value = 0;
    return db->GetIntProperty(property, &value) ? value : 0;
  };
  RocksDbStats stats;
  stats.wal_bytes = database.WalBytes();
  stats.memtable_bytes = sum(rocksdb::DB::Properties::kSizeAllMemTables);
  stats.table_bytes = sum(rocksdb::DB::Properties::kTotalSstFilesSize);
  stats.block_cache_bytes = one(rocksdb::DB::Properties::kBlockCacheUsage);
  stats.compaction_pending_bytes = sum(rocksdb::DB::Properties::kEstimatePendingCompactionBytes);
  stats.writes_stopped = one(rocksdb::DB::Properties::kIsWriteStopped) != 0;
  stats.writes_delayed = one(rocksdb::DB::Properties::kActualDelayedWriteRate) != 0;
  const DamageReport damage = Damage();
  stats.damaged_blocks = damage.blocks.size() + damage.unlisted;
  stats.stopped_families = damage.stopped_families.size();
  stats.fenced = database.fenced();
  return stats;
}

}  // namespace duetime::storage
