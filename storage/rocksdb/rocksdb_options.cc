// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_options.h"

#include <algorithm>
#include <limits>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <utility>

#include "server/base/cores.h"
#include "storage/key_codec.h"
#include "storage/layout.h"

namespace duetime::storage {
namespace {

rocksdb::ColumnFamilyOptions FamilyOptions(const RocksDbStoreOptions& store_options,
                                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  // RocksDbDatabase::SwitchLogIfFull() flushes all memtables when together they reach
  // write_buffer_bytes. This limit is higher, because RocksDB must not flush first: it rounds up to
  // arena blocks and switches the log without a sync.
  options.write_buffer_size =
      store_options.write_buffer_bytes + store_options.write_buffer_bytes / 2;
  // Blocks are small, because each family's last block counts as full against the shared limit.
  options.arena_block_size =
      std::clamp<size_t>(store_options.write_buffer_bytes / 256, 4 << 10, 128 << 10);
  // One memtable fills, one is flushed, and one is in reserve. A fourth would only use more memory
  // before writes stall.
  options.max_write_buffer_number = 3;
  // LZ4 halves plain text for 1-2 % of a core. zstd saves a further quarter, but scans cost 40 %
  // more.
  options.compression = rocksdb::kLZ4Compression;
  // RocksDB then sizes the levels from the last one up, which keeps space within about 1.1 times
  // the live data. It is not the default in RocksDB 7.8.
  options.level_compaction_dynamic_level_bytes = true;
  // These are RocksDB's defaults. They are explicit because the stall metrics refer to them.
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 20;
  options.level0_stop_writes_trigger = 36;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  // The cache then bounds indexes and filters. Otherwise memory would grow with the number of
  // pending messages, by about 2 bytes each.
  table.cache_index_and_filter_blocks = true;
  // A scan must not evict the indexes of the youngest files, which every read uses.
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Reads are scans and dense point reads: 16 KB blocks need a quarter of the index of 4 KB blocks,
  // and LZ4 compresses them better.
  table.block_size = 16 << 10;
  // CheckedTables() wants these two. Every version of RocksDB that we build with reads and writes
  // this format. Newer ones have another default, which older ones do not read.
  table.format_version = 5;
  table.checksum = rocksdb::kXXH3;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// Adds bloom filters, so that a Get or Cancel of an absent message does not read every level.
//
// Filters and indexes are partitioned into pieces of a few KB. A table of a million small entries
// has a filter of 1.3 MB, which is more than one shard of the cache holds. Without partitions every
// read would load the whole filter again. Measured without and with partitions: 150 and 5 us for an
// index entry, 140 and 17 us for a message of 200 bytes, 10 and 14 us for a message of 1 KB, whose
// filter does fit.
void FilterAbsentKeys(rocksdb::ColumnFamilyOptions* options) {
  auto* table = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table->whole_key_filtering = true;
  table->index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table->partition_filters = true;
  table->pin_top_level_index_and_filter = true;
}

// Of the filter in a memtable's write_buffer_size, which is 1.5 times write_buffer_bytes.
constexpr double kMemtableFilterShare = 0.02;

// Adds filters to memtables. A Get of a key that is in a table, or nowhere, then skips the
// memtables. Measured with 300,000 messages cancelled at random: the engine's part of a cancel is a
// quarter cheaper. A filter takes 3 % of write_buffer_bytes, which SwitchLogIfFull() counts.
void FilterMemtables(rocksdb::ColumnFamilyOptions* options) {
  options->memtable_whole_key_filtering = true;
  options->memtable_prefix_bloom_size_ratio = kMemtableFilterShare;
}

// Lets each insert into a memtable begin where the last one of the same 50 days ended (2^32 ms, the
// first bytes of the due time), because a group is written in order. Measured with due times over a
// day: an accept and a cancel are 5 to 10 % cheaper. Each place takes 232 bytes of a memtable, and
// a part that RocksDB does not count: places of 4.7 hours would halve a memtable if due times are
// spread over ten years. RocksDB has an error with this and range tombstones (fixed in 9.2), which
// no program writes.
void RememberInserts(rocksdb::ColumnFamilyOptions* options) {
  constexpr size_t kShardBytes = 2;
  constexpr size_t kTimeBytes = 4;
  options->memtable_insert_with_hint_prefix_extractor.reset(
      rocksdb::NewCappedPrefixTransform(kShardBytes + kTimeBytes));
}

// Adds filters over the key prefix, which tell whether a message has any entry. Most messages have
// none.
void FilterAbsentPrefixes(size_t prefix_bytes, rocksdb::ColumnFamilyOptions* options) {
  FilterAbsentKeys(options);
  options->prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(prefix_bytes));
  // Memtables get filters too: a message without entries then costs 1 us instead of 3.5 us.
  options->memtable_prefix_bloom_size_ratio = kMemtableFilterShare;
  // No read looks up a single key.
  options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()->whole_key_filtering =
      false;
}

// Compacts files of mostly tombstones early, because tombstones use disk space and
// BacklogSubscriptions() walks over them.
void CompactOnDeletions(rocksdb::ColumnFamilyOptions* options) {
  constexpr size_t kWindowEntries = 8192;
  constexpr size_t kTriggerDeletions = 4096;
  options->table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kWindowEntries, kTriggerDeletions));
}

// Lets the filter see every table once in garbage_age_s. New ids are greater than old ones, so an
// old table in the last level overlaps nothing new, and no other compaction would read it.
void FilterGarbage(const RocksDbStoreOptions& store_options,
                   std::shared_ptr<rocksdb::CompactionFilterFactory> filter,
                   rocksdb::ColumnFamilyOptions* options) {
  options->compaction_filter_factory = std::move(filter);
  options->periodic_compaction_seconds = store_options.garbage_age_s;
}

// Bounds the operands of a counter in a memtable. The write of the 33rd operand reads the operands
// and writes their sum instead. A flush writes one value per counter to a table. More operands
// would make reads slower; fewer would write the 10 KB of a full day more often.
template <typename Options>
void BoundChanges(Options* options) {
  options->max_successive_merges = 32;
  // Versions that have this option keep the bound only with it, if the counter is not in the cache.
  if constexpr (requires { options->strict_max_successive_merges; }) {
    options->strict_max_successive_merges = true;
  }
}

}  // namespace

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env, std::shared_ptr<rocksdb::Logger> logger,
                                 std::shared_ptr<rocksdb::EventListener> listener) {
  const int cores = static_cast<int>(base::UsableCores());
  rocksdb::DBOptions options;
  options.env = env;
  options.info_log = std::move(logger);
  // Explicit because the default depends on how RocksDB's headers are compiled.
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.listeners.push_back(std::move(listener));

  // RocksDB then drops a record that is cut off at the end of the log, because the server never
  // acknowledged it. With damage anywhere else it refuses to open. The default (point in time)
  // silently drops everything after the damage.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Recycled log files keep old records after the new ones, which is known to cause data loss.
  options.recycle_log_file_num = 0;
  // Each append reaches the kernel before it returns, so that it survives the process. With manual
  // flush it would wait in a buffer; the combination with sync=true is documented as unclear.
  options.manual_wal_flush = false;
  // The first two break the promise that a read sees whole batches in order. None of the three
  // helps a single writer.
  options.unordered_write = false;
  options.two_write_queues = false;
  options.enable_pipelined_write = false;
  // RocksDB 7.8 reports healthy logs as missing (fixed in 7.10). The witness does this work.
  options.track_and_verify_wals_in_manifest = false;
  // RocksDB 7.8 recovers compressed logs wrongly (fixed in 8.0).
  options.wal_compression = rocksdb::kNoCompression;
  // RocksDbDatabase::SwitchLogIfFull() bounds the log and flushes every family, so that no family
  // keeps old log files alive. RocksDB's own limit would switch unsynced.
  options.max_total_wal_size = std::numeric_limits<uint64_t>::max();
  // A start writes the replayed records to tables at once, synced. They are durable before anything
  // builds on them, and the next start does not replay them again.
  options.avoid_flush_during_recovery = false;

  // Verifies checksums on every read and after every compaction. This is the default, but
  // everything relies on it.
  options.paranoid_checks = true;
  // Payloads do not belong in logs.
  options.allow_data_in_errors = false;
  // After a failed write or sync the content of the disk is unknown. The journal is fenced, and a
  // restart reads the disk.
  options.max_bgerror_resume_count = 0;

  // Keeps every table file open, so that a read never waits for an open. open_files_max overrides
  // it.
  options.max_open_files = -1;
  // The threads that open files at a start. The default makes 15 threads per column family, even
  // for one file.
  options.max_file_opening_threads = std::max(1, cores);
  // A flush must not wait behind a long compaction.
  options.max_background_jobs = std::max(2, cores / 4);
  // Spinning disks and network volumes need readahead. The default of RocksDB 7.8 is none.
  options.compaction_readahead_size = size_t{2} << 20;
  // Table files reach the disk while they are written, so that the sync of a log does not queue
  // behind 64 MB of them.
  options.bytes_per_sync = size_t{1} << 20;
  // These two differ between the versions. No program reads the OPTIONS file, so a start does not
  // need it. The id of the database is in the file IDENTITY; a newer version would also write it
  // to the manifest.
  options.fail_if_options_file_error = false;
  options.write_dbid_to_manifest = false;
  // The metrics read properties instead.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksDbStoreOptions& store_options, const std::shared_ptr<const DropMark>& drop_mark) {
  // All families share one cache, because block_cache_bytes bounds the whole daemon.
  const std::shared_ptr<rocksdb::Cache> cache =
      rocksdb::NewLRUCache(store_options.block_cache_bytes);
  rocksdb::ColumnFamilyOptions meta = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions messages = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions backlog = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions index = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions locators = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions counts = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions objects = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions progress = FamilyOptions(store_options, cache);
  FilterAbsentKeys(&messages);
  FilterMemtables(&messages);
  RememberInserts(&messages);
  FilterAbsentKeys(&index);
  FilterMemtables(&index);
  FilterAbsentKeys(&locators);
  CompactOnDeletions(&messages);
  CompactOnDeletions(&backlog);
  FilterAbsentPrefixes(kProgressPrefixBytes, &progress);
  CompactOnDeletions(&progress);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (rocksdb::ColumnFamilyOptions* const options :
       {&meta, &messages, &backlog, &index, &locators, &counts, &objects, &progress}) {
    const auto family = static_cast<ColumnFamily>(families.size());
    const FamilyLayout& layout = LayoutOf(family);
    if (layout.sums) {
      options->merge_operator = NewCountMergeOperator();
      BoundChanges(options);
    }
    if (layout.sums || layout.expires) {
      FilterGarbage(store_options, NewGarbageFilterFactory(family, drop_mark), options);
    }
    families.emplace_back(std::string(layout.name), *options);
  }
  return families;
}

rocksdb::WriteOptions MakeWriteOptions(bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  return options;
}

rocksdb::ReadOptions MakeScanOptions(const rocksdb::Slice* lower, const rocksdb::Slice* upper,
                                     uint64_t tombstones_max) {
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = lower;
  options.iterate_upper_bound = upper;
  options.max_skippable_internal_keys = tombstones_max;
  // Messages are read in order, once or twice. The kernel's cache and read-ahead serve that equally
  // well (0.3 us either way), so the block cache stays free for indexes, filters and point reads.
  options.fill_cache = false;
  options.verify_checksums = true;
  // No program ever wrote a range tombstone. An iterator that looks for them steps from one table
  // of a level to the next in a way that drops the error if the first block of the next table is
  // damaged: it silently leaves out the rest of the level (fixed in 8.7).
  options.ignore_range_deletions = true;
  return options;
}

rocksdb::ReadOptions MakeGetOptions() {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  return options;
}

void StopPerfCounters() { rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable); }

}  // namespace duetime::storage
