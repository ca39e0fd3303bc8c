// SPDX-License-Identifier: Apache-2.0
//
// What RocksDB calls back for while it reads and merges tables: adding counters up, and leaving out
// what no longer counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/merge_operator.h>

namespace duetime::storage {

// Up to which expire_ms entries may be dropped (MessageStore::DropExpired). Shared with RocksDB's
// threads.
using DropMark = std::atomic<uint64_t>;

// counts: adds CountDeltas. A value that is not a CountDelta makes the read or the compaction fail.
std::shared_ptr<rocksdb::MergeOperator> NewCountMergeOperator();

// counts: leaves out counters that have come to zero, which mean the same as absent ones.
//
// RocksDB asks about values, not about operands (which this filter keeps whatever they say: an
// operand of zero is rare, and dropping one part of a sum because of what another part says would
// be wrong). The result of a merge is not asked about until the next compaction that meets it. A
// value that is left out above a level that may have older ones becomes a tombstone, so nothing
// older shows through, and what was added after it starts from nothing, which is zero.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewZeroCountFilterFactory();

// index, traces: leaves out what ExpireTimeOf() puts at or before the mark.
std::shared_ptr<rocksdb::CompactionFilterFactory> NewExpiryFilterFactory(
    std::shared_ptr<const DropMark> mark);

}  // namespace duetime::storage
