// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_status.h"

#include <cerrno>
#include <system_error>

#include "absl/strings/match.h"
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

bool MayPass(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return true;
  // RocksDB keeps only the text of these.
  for (const int error : {EMFILE, ENFILE, EDQUOT}) {
    if (absl::StrContains(status.ToString(), std::generic_category().message(error))) return true;
  }
  return false;
}

}  // namespace duetime::storage
