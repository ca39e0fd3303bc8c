// SPDX-License-Identifier: Apache-2.0
//
// A check of tables that RocksDB opens.
#pragma once

#include <memory>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

namespace duetime::storage {

// Passes calls on to `base`, or to the default file system for null, and checks each table when it
// is opened: its footer, and the checksums of its metaindex and its properties. If one of them is
// wrong, the open fails with Corruption, which names the file and the offset.
//
// RocksDB 7.8 trusts the footer, which has no checksum. It parses the properties before it compares
// their checksum (ReadTablePropertiesHelper in table/meta_blocks.cc): one wrong bit there fails an
// assertion of Debian's package, and the process aborts. For each open of a table, the check costs
// one call for the size and three reads of less than 2 KB.
//
// Thread safety: as `base`.
std::shared_ptr<rocksdb::FileSystem> CheckedTables(std::shared_ptr<rocksdb::FileSystem> base);

// The default Env with CheckedTables(). It is never destroyed.
rocksdb::Env* CheckedEnv();

}  // namespace duetime::storage
