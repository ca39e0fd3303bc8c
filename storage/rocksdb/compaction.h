// SPDX-License-Identifier: Apache-2.0
//
// Callbacks for RocksDB's reads and compactions: adding counters, and dropping expired entries.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/merge_operator.h>

namespace duetime::storage {

// The expire_ms up to which entries may be dropped (MessageStore::DropExpired). Shared with
// RocksDB's threads.
using DropMark = std::atomic<uint64_t>;

// For family counts: adds up CountDeltas, and the counters of days (DayCounts). A value that is
// neither makes the read or the compaction fail. Cost of one sum: that of all its values' bytes,
// and for a day about 2 us.
std::shared_ptr<rocksdb::MergeOperator> NewCountMergeOperator();

// For family counts: drops counters of zero, which mean the same as absent ones.
//
// RocksDB calls the filter for values. The filter keeps operands, because dropping one part of a
// sum would be wrong; an operand of zero is rare. The filter sees the result of a merge at the next
// compaction. If older values may exist in deeper levels, RocksDB replaces a dropped value by a
// tombstone, so that older values stay hidden and later changes start from zero.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewZeroCountFilterFactory();

// For families index and traces: drops entries whose ExpireTimeOf() is at or below the mark.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewExpiryFilterFactory(
    std::shared_ptr<const DropMark> mark);

}  // namespace duetime::storage
