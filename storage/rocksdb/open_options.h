// SPDX-License-Identifier: Apache-2.0
//
// RocksDbStoreOptions: how to open a data directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

#include "storage/damage.h"
#include "storage/store_options.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace duetime::storage {

// How to open a store.
struct RocksDbStoreOptions : StoreOptions {
  enum class LogLevel : uint8_t { kWarning, kError };

  // The number of shards of a new store if `shards` is 0. At most MessageId::kSlotCount.
  uint16_t shards_if_new = 1;
  // Whether Open may create a store where there is none. The daemon sets it to --init. A missing or
  // empty directory is more often a volume that is not mounted than a new store.
  bool create_if_missing = true;
  // Files whose paths begin so are the daemon's own, and may lie in a directory in which Open
  // creates a store. Any other file there is refused.
  std::string own_file = {};
  // How long expired entries stay on disk, about, in seconds. RocksDB rewrites every table of index
  // entries, locators and counters once in this time. A counter of zero stays twice as long.
  uint64_t garbage_age_s = 3600;

  // Which log the store belongs to.
  enum class Use : uint8_t {
    // The journal of this store (Append). Open refuses the directory of a cell's member.
    kAlone,
    // The log of a cell (ApplyLogged). Open refuses the directory of a server that is alone.
    kInCell,
    // Either: for tools.
    kAny,
  };
  Use use = Use::kAlone;

  // The time of the start, UTC milliseconds. If the directory is a copy or was restored, messages
  // due by then count as handed out (RocksDbStore::Open). 0: Open does not look whether it is.
  uint64_t now_ms = 0;

  // Receives RocksDB's warnings and errors, on any thread. Must be thread-safe and must not call
  // the store.
  std::function<void(LogLevel, absl::string_view)> log = nullptr;

  // For tests: replaces the machine's file system under RocksDB.
  std::shared_ptr<rocksdb::FileSystem> file_system = nullptr;
  // For tests: the damaged blocks that are listed.
  size_t damaged_blocks_max = DamageList::kBlocksMax;
  // For tests: makes kSynced appends buffered, to prove that the crash tests detect it.
  bool unsafe_no_sync = false;
};

using LogLevel = RocksDbStoreOptions::LogLevel;
using LogSink = std::function<void(LogLevel, absl::string_view)>;

}  // namespace duetime::storage
