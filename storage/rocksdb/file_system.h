// SPDX-License-Identifier: Apache-2.0
//
// File system calls of the store, in addition to those of RocksDB.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// INTERNAL: "cannot <action> <path>: <errno's text>".
absl::Status SystemError(absl::string_view action, absl::string_view path, int error_number);

// Creates a directory (mode 0700) and makes its entry durable. An existing directory is not an
// error. REQUIRES: its parent exists.
absl::Status CreateDirectory(const std::string& path);

// Makes the directory entry of `path` durable.
absl::Status SyncParentDirectory(const std::string& path);

// Truncates a file to `size` bytes, durably.
absl::Status TruncateFile(const std::string& path, uint64_t size);

// Bytes that an unprivileged user may still write to the file system of `path`.
absl::StatusOr<uint64_t> FreeBytes(const std::string& path);

// FAILED_PRECONDITION if the file system of `path` has no room for a store of `bytes`, its logs and
// compactions.
absl::Status CheckRoomForStore(const std::string& path, uint64_t bytes);

// Returns OK if the process may now open 64 more files, and write `bytes` into a new file of the
// directory. Leaves nothing behind.
absl::Status ProbeDirectory(const std::string& path, uint64_t bytes);

// Locks a directory for one process while this object lives. The kernel releases the lock when the
// process ends in any way.
class DirectoryLock {
 public:
  // UNAVAILABLE if another process holds the lock.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& path);
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace duetime::storage
