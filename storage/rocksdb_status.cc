// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_status.h"

#include "absl/strings/str_cat.h"

namespace duetime::storage {

absl::Status FromRocksDb(const rocksdb::Status& status, absl::string_view action) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("cannot ", action, ": ", status.ToString());
  // RocksDB reports a path error if a file that the manifest names is missing. For the store, that
  // is lost data.
  if (status.IsCorruption() || status.IsPathNotFound()) return absl::DataLossError(text);
  return absl::InternalError(text);
}

}  // namespace duetime::storage
