// SPDX-License-Identifier: Apache-2.0
//
// The RocksDB options of the store. rocksdb_options.cc gives the reason for each; an option that is
// not set keeps RocksDB's default on purpose.
#pragma once

#include <memory>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <vector>

#include "storage/rocksdb/compaction.h"
#include "storage/rocksdb/open_options.h"

namespace duetime::storage {

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env, std::shared_ptr<rocksdb::Logger> logger,
                                 std::shared_ptr<rocksdb::EventListener> listener);

// The families in the order of ColumnFamily. Compactions compare expire_ms with `drop_mark`.
std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksDbStoreOptions& store_options, const std::shared_ptr<const DropMark>& drop_mark);

// Options for Append. `sync` is always explicit.
rocksdb::WriteOptions MakeWriteOptions(bool sync);

// Options for an iterator between two bounds. The iterator gives up after `tombstones_max`
// tombstones in a row; 0: never. REQUIRES: the slices outlive the iterator.
rocksdb::ReadOptions MakeScanOptions(const rocksdb::Slice* lower, const rocksdb::Slice* upper,
                                     uint64_t tombstones_max);

// Options for point reads.
rocksdb::ReadOptions MakeGetOptions();

// Stops RocksDB's counters of this thread, such as its comparisons of keys. Nobody reads them. The
// frequent reads and writes call it; a call costs nanoseconds.
void StopPerfCounters();

}  // namespace duetime::storage
