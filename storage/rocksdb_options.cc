// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_options.h"

#include <algorithm>
#include <limits>
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <thread>
#include <utility>

#include "storage/key_codec.h"

namespace duetime::storage {
namespace {

rocksdb::ColumnFamilyOptions FamilyOptions(const RocksDbStoreOptions& store_options,
                                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  // A backstop. RocksDbDatabase::SwitchLogIfFull() hands all memtables to the flush when they have
  // grown to write_buffer_bytes together; RocksDB, which rounds to arena blocks and would do it
  // unsynced, must not come first.
  options.write_buffer_size =
      store_options.write_buffer_bytes + store_options.write_buffer_bytes / 2;
  // Small, because the part of the last block that is not used counts as filled, once for each
  // family, against what all may have together.
  options.arena_block_size =
      std::clamp<size_t>(store_options.write_buffer_bytes / 256, 4 << 10, 128 << 10);
  // One filling, one flushing, one in reserve; a fourth would only be more memory before the stall.
  options.max_write_buffer_number = 3;
  // Half the bytes of plain text at 1-2 % of a core; zstd saves a further quarter and costs 40 %
  // more per scan.
  options.compression = rocksdb::kLZ4Compression;
  // Sizes the levels from the last one up: space stays within about 1.1 of the live data. Not the
  // default in this version.
  options.level_compaction_dynamic_level_bytes = true;
  // RocksDB's thresholds, written down because the metrics of stalls are read against them.
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 20;
  options.level0_stop_writes_trigger = 36;

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  // Indexes and filters live in the cache and count against it: otherwise memory grows with the
  // number of pending messages (about 2 bytes for each).
  table.cache_index_and_filter_blocks = true;
  // ... but those of the youngest files, which every read passes, are not evicted by a scan.
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  // Reads are scans and dense point reads: a quarter of the index of 4 KB blocks, and LZ4 does
  // better.
  table.block_size = 16 << 10;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// Asking for, or cancelling, what is no longer there must not cost a read in every level.
//
// Filters and indexes in pieces of a few KB: a table of small entries has a million of them and a
// filter of 1.3 MB, which is more than a shard of the cache takes, so that every read would read
// all of it again (150 us against 5 for an index entry, 140 against 17 for a message of 200 bytes;
// for one of 1 KB, whose filters do fit, 10 against 14).
void FilterAbsentKeys(rocksdb::ColumnFamilyOptions* options) {
  auto* table = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table->filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table->whole_key_filtering = true;
  table->index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table->partition_filters = true;
  table->pin_top_level_index_and_filter = true;
}

// Whether there is anything about a message is asked of the filters, by what all its keys begin
// with; most often there is nothing.
void FilterAbsentPrefixes(size_t prefix_bytes, rocksdb::ColumnFamilyOptions* options) {
  FilterAbsentKeys(options);
  options->prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(prefix_bytes));
  // Memtables have such a filter too: 1 us instead of 3.5 for a message of which there is nothing.
  options->memtable_prefix_bloom_size_ratio = 0.02;
  // Nobody asks for a single key.
  options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>()->whole_key_filtering =
      false;
}

// Files that are mostly tombstones are compacted early: BacklogSubscriptions() walks over them, and
// they hold on to disk space.
void CompactOnDeletions(rocksdb::ColumnFamilyOptions* options) {
  constexpr size_t kWindowEntries = 8192;
  constexpr size_t kTriggerDeletions = 4096;
  options->table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kWindowEntries, kTriggerDeletions));
}

// Has every table looked at again by the filter that leaves things out. New ids are greater than
// old ones, so that a table of old ones at the last level overlaps nothing new: no compaction would
// meet it by itself.
void FilterGarbage(const RocksDbStoreOptions& store_options,
                   std::shared_ptr<rocksdb::CompactionFilterFactory> filter,
                   rocksdb::ColumnFamilyOptions* options) {
  options->compaction_filter_factory = std::move(filter);
  options->periodic_compaction_seconds = store_options.garbage_age_s;
}

// Counters that change with every group are read as one sum and a few changes, not as thousands of
// changes. RocksDB does it as it writes: it walks over the changes in the memtable, and at the
// 17th reads the sum. Only the first time after a flush does that reach a table.
void BoundChanges(rocksdb::ColumnFamilyOptions* options) { options->max_successive_merges = 16; }

}  // namespace

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env, std::shared_ptr<rocksdb::Logger> logger,
                                 std::shared_ptr<rocksdb::EventListener> listener) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  rocksdb::DBOptions options;
  options.env = env;
  options.info_log = std::move(logger);
  // Said here because the default depends on how RocksDB's headers are compiled.
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.listeners.push_back(std::move(listener));

  // A record that was cut short at the end of the log was never acknowledged and is dropped; damage
  // anywhere else refuses to open. The default (point in time) silently drops everything after the
  // damage.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  // Recycled log files carry old records behind the new ones: known to lose data, and not needed.
  options.recycle_log_file_num = 0;
  // Each append reaches the kernel before it returns, so that it survives the process; with this on
  // it would wait in a buffer. Together with sync=true it is also documented as unclear.
  options.manual_wal_flush = false;
  // Both break the promise that a read sees whole batches, in order; neither gains anything with a
  // single writer.
  options.unordered_write = false;
  options.two_write_queues = false;
  options.enable_pipelined_write = false;
  // Reports healthy logs as missing in this version (fixed in 7.10). The witness does its work.
  options.track_and_verify_wals_in_manifest = false;
  // Its recovery is broken in this version (fixed in 8.0).
  options.wal_compression = rocksdb::kNoCompression;
  // RocksDbDatabase::SwitchLogIfFull() bounds the log, and hands every family to the flush when it
  // does, so that none holds on to old log files. This one would switch unsynced.
  options.max_total_wal_size = std::numeric_limits<uint64_t>::max();
  // A start moves what it has read again into table files at once, synced: it is durable before
  // anything builds on it, and the next start does not read it a third time.
  options.avoid_flush_during_recovery = false;

  // Checksums are verified on every read and after every compaction (the default, but all else
  // rests on it).
  options.paranoid_checks = true;
  // Payloads do not belong in logs.
  options.allow_data_in_errors = false;
  // After a failed write or sync nobody knows what is on disk. The journal is fenced; a restart
  // reads what is there.
  options.max_bgerror_resume_count = 0;

  // Every table file stays open: a read never waits for one to be opened, and their number is
  // bounded by the data's size.
  options.max_open_files = -1;
  // Who opens them at the start; the default makes 15 threads per column family even if there is
  // one file.
  options.max_file_opening_threads = std::max(1, cores);
  // A flush must not wait behind a long compaction.
  options.max_background_jobs = std::max(2, cores / 4);
  // Spinning disks and network volumes need it; the default of this version is none.
  options.compaction_readahead_size = size_t{2} << 20;
  // Table files reach the disk while they are written, so that the sync of a log does not queue
  // behind 64 MB of them.
  options.bytes_per_sync = size_t{1} << 20;
  // Nobody reads them: our metrics ask for what they need.
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksDbStoreOptions& store_options, std::shared_ptr<const DropMark> drop_mark) {
  // One cache for all: the bound is the daemon's, not a family's.
  const std::shared_ptr<rocksdb::Cache> cache =
      rocksdb::NewLRUCache(store_options.block_cache_bytes);
  const rocksdb::ColumnFamilyOptions meta = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions messages = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions backlog = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions index = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions traces = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions counts = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions objects = FamilyOptions(store_options, cache);
  rocksdb::ColumnFamilyOptions progress = FamilyOptions(store_options, cache);
  FilterAbsentKeys(&messages);
  FilterAbsentKeys(&index);
  FilterAbsentKeys(&traces);
  CompactOnDeletions(&messages);
  CompactOnDeletions(&backlog);
  FilterAbsentPrefixes(kProgressPrefixBytes, &progress);
  CompactOnDeletions(&progress);
  FilterGarbage(store_options, NewExpiryFilterFactory(drop_mark), &index);
  FilterGarbage(store_options, NewExpiryFilterFactory(std::move(drop_mark)), &traces);
  FilterGarbage(store_options, NewZeroCountFilterFactory(), &counts);
  counts.merge_operator = NewCountMergeOperator();
  BoundChanges(&counts);
  return {{rocksdb::kDefaultColumnFamilyName, meta},
          {"messages", messages},
          {"backlog", backlog},
          {"index", index},
          {"traces", traces},
          {"counts", counts},
          {"objects", objects},
          {"progress", progress}};
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
  // Messages are read in order and once or twice: the kernel's cache and read-ahead serve that as
  // well (0.3 us either way), and ours stays for indexes, filters and point reads.
  options.fill_cache = false;
  options.verify_checksums = true;
  return options;
}

rocksdb::ReadOptions MakeGetOptions() {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  return options;
}

}  // namespace duetime::storage
