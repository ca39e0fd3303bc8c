// SPDX-License-Identifier: Apache-2.0
//
// StoreOptions: the knobs of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace duetime::storage {

struct StoreOptions {
  // It holds db/ and witness. A new store also creates the directory; its parent must exist.
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
  // How many table files stay open at once. 0: all, so that a read never waits for an open. Not a
  // knob: it follows from the limit of open files.
  uint64_t open_files_max = 0;
};

}  // namespace duetime::storage
