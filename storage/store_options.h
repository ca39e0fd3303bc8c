// SPDX-License-Identifier: Apache-2.0
//
// StoreOptions: the knobs of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace duetime::storage {

struct StoreOptions {
  // The directory is created if it does not exist; its parent must exist. It holds db/ and witness
  // only.
  std::string data_dir;
  // The expected number of shards. 0: any.
  uint64_t shards = 0;

  // The cache of uncompressed blocks, indexes and filters.
  size_t block_cache_bytes = size_t{64} << 20;
  // The size of one memtable. RocksDB holds up to three. A smaller size means less log to replay at
  // a start, a larger size fewer tables to merge.
  size_t write_buffer_bytes = size_t{32} << 20;
  // The limit for the log files of these memtables. One log is about half of it.
  size_t wal_bytes_max = size_t{96} << 20;
};

}  // namespace duetime::storage
