// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for RocksDB's reads and compactions: adding counters, and dropping garbage.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/merge_operator.h>

#include "storage/layout.h"

namespace duetime::storage {

// The expire_ms up to which entries may be dropped (MessageStore::DropExpired). Shared with
// RocksDB's threads.
using DropMark = std::atomic<uint64_t>;

// For a family of sums: a CountSum. A value or a change that is not valid makes the read or the
// compaction fail.
std::shared_ptr<rocksdb::MergeOperator> NewCountMergeOperator();

// Drops the entries of a family for which MayDrop() holds with the mark. REQUIRES: the family's
// values are sums, or expire.
//
// RocksDB calls the filter for values. The filter keeps operands, because dropping one part of a
// sum would be wrong; an operand of zero is rare. The filter sees the result of a merge at the next
// compaction. If older values may exist in deeper levels, RocksDB replaces a dropped value by a
// tombstone, so that older values stay hidden and later changes start from zero.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewGarbageFilterFactory(
    ColumnFamily family, std::shared_ptr<const DropMark> mark);

}  // namespace duetime::storage
