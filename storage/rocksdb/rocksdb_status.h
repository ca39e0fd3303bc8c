// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// Converts a RocksDB status. Corruption (a wrong checksum, a missing or short file) becomes
// DATA_LOSS; all other errors become INTERNAL. The text is "cannot <action>: <RocksDB's text>".
absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view action);

// True if the cause of an error may end by itself: the disk or a quota is full, or no descriptor is
// free.
bool MayPass(const rocksdb::Status& status);

}  // namespace duetime::storage
