// SPDX-License-Identifier: Apache-2.0
//
// CheckpointFile: a file of a directory that RocksDbStore::WriteCheckpoint made.
#pragma once

#include <cstdint>
#include <string>

namespace duetime::storage {

struct CheckpointFile {
  // Relative to the directory, such as "db/000012.sst".
  std::string path;
  uint64_t bytes = 0;
  // Of a table: RocksDB's unique id in hex digits. Two tables with the same id have the same bytes,
  // also in copies of a store. Empty: the file has none.
  std::string unique_id;
};

}  // namespace duetime::storage
