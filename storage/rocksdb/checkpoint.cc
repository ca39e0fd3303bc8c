// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/unique_id.h>
#include <rocksdb/utilities/checkpoint.h>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "storage/rocksdb/checked_tables.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_status.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

// Empty if the table does not tell it. The file is then copied each time.
std::string UniqueIdOfTable(const std::string& path) {
  rocksdb::Options options;
  options.env = CheckedEnv();
  rocksdb::SstFileReader reader(options);
  if (!reader.Open(path).ok()) return "";
  std::string id;
  if (!rocksdb::GetExtendedUniqueIdFromTableProperties(*reader.GetTableProperties(), &id).ok()) {
    return "";
  }
  return absl::BytesToHexString(id);
}

}  // namespace

absl::StatusOr<std::vector<CheckpointFile>> ListCheckpoint(const std::string& directory) {
  std::vector<CheckpointFile> files;
  std::error_code error;
  fs::recursive_directory_iterator at(directory, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (!at->is_regular_file(error) || error) continue;
    CheckpointFile file;
    file.path = fs::relative(at->path(), directory, error).string();
    if (!error) file.bytes = at->file_size(error);
    if (at->path().extension() == ".sst") file.unique_id = UniqueIdOfTable(at->path().string());
    files.push_back(std::move(file));
  }
  if (error) return SystemError("list", directory, error.value());
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

absl::Status RocksDbDatabase::WriteCheckpoint(const std::string& path) {
  // What is durable now is in the checkpoint. The records that follow may be cut off in its last
  // log, and then its first start drops their remains.
  const WitnessRecord record = DurableRecord();
  if (absl::Status status = CreateDirectory(path); !status.ok()) return status;
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(db_.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  // A flush would switch the log, which only SwitchLogIfFull may do. So the logs are copied.
  constexpr uint64_t kNeverFlush = std::numeric_limits<uint64_t>::max();
  if (status.ok()) status = checkpoint->CreateCheckpoint(path + "/db", kNeverFlush);
  if (!status.ok()) return FromRocksDb(status, absl::StrCat("write a checkpoint to ", path));
  auto witness = Witness::Open(path + "/witness");
  if (!witness.ok()) return witness.status();
  if (const auto read = (*witness)->Read(); !read.ok()) return read.status();
  return (*witness)->Write(record);
}

}  // namespace duetime::storage
