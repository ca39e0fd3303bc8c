// SPDX-License-Identifier: Apache-2.0
//
// FetchedDirectory: the store that a member of a cell fetches from the leader, beside its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/checkpoint_file.h"
#include "storage/log_place.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime::storage {

// Collects the files of a checkpoint (CheckpointFile) in `data_dir`/fetched. An attempt that ends
// early leaves whole tables there, which the next one need not fetch, also of a later checkpoint.
// Thread safety: one thread at a time.
class FetchedDirectory {
 public:
  // Returns a part of the file from this offset on, not empty.
  using ReadPart = std::function<absl::StatusOr<std::string>(uint64_t offset)>;

  // Creates the directory if it is missing, and removes what an earlier attempt left, but the
  // tables of this checkpoint. FAILED_PRECONDITION: the file system has no room for the rest.
  static absl::StatusOr<FetchedDirectory> Begin(const std::string& data_dir,
                                                const std::vector<CheckpointFile>& files);

  // Reads the file, unless the table is there, and stores it durably. INVALID_ARGUMENT: a path or
  // an id that no checkpoint has; INTERNAL: the parts have another size, or the operating system
  // failed. Errors of `read` are passed on.
  absl::Status Store(const CheckpointFile& file, const ReadPart& read);

  // Opens the store with these options (but the directory), verifies it (VerifyDirectory), and lets
  // the next TakeFetched find it. `before`: where the member is in the log.
  //   DATA_LOSS            it is damaged, and is removed with all tables
  //   FAILED_PRECONDITION  it is not that of a member of the same cell, or not newer; errors of
  //   Open
  absl::Status Publish(RocksDbStoreOptions options, const LogPlace& before);

  // The bytes that were read, without the tables that were there.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  explicit FetchedDirectory(const std::string& path) : path_(path) {}

  absl::Status CheckPlace(RocksDbStoreOptions options, const LogPlace& before) const;
  absl::Status Write(const std::string& path, uint64_t bytes, const ReadPart& read);

  std::string path_;
  uint64_t bytes_read_ = 0;
};

// If a published store is in `data_dir`/fetched, puts it in the place of the store in `data_dir`,
// and removes the rest. Otherwise removes only what a later attempt does not need. Call before
// RocksDbStore::Open. After an error or a crash, the next call goes on. UNAVAILABLE: another
// process has the directory open. INTERNAL: the operating system failed.
absl::Status TakeFetched(const std::string& data_dir);

}  // namespace duetime::storage
