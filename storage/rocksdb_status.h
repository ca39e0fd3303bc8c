// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rocksdb/status.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// OK stays OK; corruption (a checksum that does not match, a file that is missing or too short)
// becomes DATA_LOSS; all else becomes INTERNAL. `action` says what was attempted: "cannot <action>:
// <RocksDB's text>".
absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view action);

}  // namespace duetime::storage
