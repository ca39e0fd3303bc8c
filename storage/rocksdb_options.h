// SPDX-License-Identifier: Apache-2.0
//
// Every RocksDB option that the store sets, each with its reason in rocksdb_options.cc. What is not
// set there is RocksDB's default on purpose.
#pragma once

#include <memory>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <vector>

#include "storage/rocksdb_compaction.h"
#include "storage/rocksdb_store.h"

namespace duetime::storage {

rocksdb::DBOptions MakeDbOptions(rocksdb::Env* env, std::shared_ptr<rocksdb::Logger> logger,
                                 std::shared_ptr<rocksdb::EventListener> listener);

// In the order of ColumnFamily. `drop_mark` is what compactions compare expire_ms with.
std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksDbStoreOptions& store_options, std::shared_ptr<const DropMark> drop_mark);

// For Append. `sync` is always said, never a default.
rocksdb::WriteOptions MakeWriteOptions(bool sync);

// For reading along the keys between two bounds. The iterator gives up after `tombstones_max` in a
// row, never if it is 0. REQUIRES: the slices outlive the iterator.
rocksdb::ReadOptions MakeScanOptions(const rocksdb::Slice* lower, const rocksdb::Slice* upper,
                                     uint64_t tombstones_max);

// For point reads.
rocksdb::ReadOptions MakeGetOptions();

}  // namespace duetime::storage
