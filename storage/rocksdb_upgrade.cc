// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_upgrade.h"

#include <optional>
#include <rocksdb/db.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "storage/key_codec.h"
#include "storage/rocksdb_options.h"
#include "storage/rocksdb_slice.h"
#include "storage/value_codec.h"
#include "storage/witness.h"

namespace duetime::storage {

absl::Status CheckFormatVersion(absl::string_view data_dir, uint64_t version, uint64_t oldest,
                                uint64_t newest) {
  if (version >= oldest && version <= newest) return absl::OkStatus();
  const std::string has = absl::StrCat(data_dir, " has format version ", version);
  if (version > newest) {
    return absl::FailedPreconditionError(absl::StrCat(has, "; this program knows up to ", newest));
  }
  if (version >= kFirstFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(has, "; a start of the daemon upgrades it to ", newest));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      has, ": it was made before 1.0, with duetime 0.1; this program knows ", kFirstFormatVersion,
      " and later. To keep its messages, start the program that made it, export them with "
      "`duetime export`, and import them into a new directory of this program"));
}

absl::Status CheckFormatOfWitness(absl::string_view data_dir, uint64_t oldest, uint64_t newest) {
  const auto witness = Witness::OpenToRead(absl::StrCat(data_dir, "/witness"));
  if (!witness.ok()) return absl::OkStatus();
  const auto record = (*witness)->Read();
  if (!record.ok() || !record->has_value()) return absl::OkStatus();
  return CheckFormatVersion(data_dir, (*record)->format_version, oldest, newest);
}

std::optional<uint64_t> FormatOfDb(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta) {
  std::string value;
  const StoreKey key = FormatVersionKey();
  const rocksdb::Status read = db->Get(MakeGetOptions(), meta, ToSlice(key.bytes()), &value);
  return read.ok() ? DecodeNumber(value) : std::nullopt;
}

}  // namespace duetime::storage
