// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/format_version.h"

#include <atomic>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "storage/key_codec.h"
#include "storage/rocksdb/checked_tables.h"
#include "storage/rocksdb/rocksdb_logger.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/table_damage.h"
#include "storage/rocksdb/witness.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// Opens the database without writing. Empty if it does not open, or its version cannot be read.
std::optional<uint64_t> ReadFormat(const std::string& data_dir) {
  const auto errors = std::make_shared<BackgroundErrors>(
      std::make_shared<std::atomic<bool>>(false), std::make_shared<std::atomic<bool>>(false));
  const rocksdb::DBOptions options = MakeDbOptions(
      CheckedEnv(), std::make_shared<RocksDbLogger>(nullptr), NewBackgroundListener(errors));
  RocksDbStoreOptions store;
  store.data_dir = data_dir;
  rocksdb::DB* opened = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(
      options, data_dir + "/db", MakeColumnFamilies(store, std::make_shared<DropMark>(0)), &handles,
      &opened);
  if (!status.ok()) return std::nullopt;
  const std::unique_ptr<rocksdb::DB> db(opened);
  const auto version = FormatOfDb(db.get(), handles[static_cast<size_t>(ColumnFamily::kMeta)]);
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  return version;
}

}  // namespace

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

absl::Status CheckFormatOfDirectory(const std::string& data_dir, uint64_t witness_version,
                                    uint64_t oldest, uint64_t newest) {
  uint64_t version = witness_version;
  if (version < kFirstFormatVersion) version = ReadFormat(data_dir).value_or(version);
  return CheckFormatVersion(data_dir, version, oldest, newest);
}

absl::Status CheckFormatOfWitness(const std::string& data_dir, uint64_t oldest, uint64_t newest) {
  const auto witness = Witness::OpenToRead(absl::StrCat(data_dir, "/witness"));
  if (!witness.ok()) return absl::OkStatus();
  const auto record = (*witness)->Read();
  if (!record.ok() || !record->has_value()) return absl::OkStatus();
  return CheckFormatOfDirectory(data_dir, (*record)->format_version, oldest, newest);
}

std::optional<uint64_t> FormatOfDb(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta) {
  std::string value;
  const StoreKey key = FormatVersionKey();
  const rocksdb::Status read = db->Get(MakeGetOptions(), meta, ToSlice(key.bytes()), &value);
  return read.ok() ? DecodeNumber(value) : std::nullopt;
}

}  // namespace duetime::storage
