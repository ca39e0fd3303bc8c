// SPDX-License-Identifier: Apache-2.0
//
// The few things the store asks of the file system by itself, beside what RocksDB does.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// INTERNAL: "cannot <action> <path>: <errno's text>".
absl::Status SystemError(absl::string_view action, absl::string_view path, int error_number);

// Creates a directory (mode 0700) and makes its entry durable. An existing directory is no error.
// Its parent must exist.
absl::Status CreateDirectory(const std::string& path);

// Makes the entries of the directory that holds `path` durable.
absl::Status SyncParentDirectory(const std::string& path);

// Cuts a file to its first `size` bytes, durably.
absl::Status TruncateFile(const std::string& path, uint64_t size);

// Bytes that an ordinary user may still write to the file system that holds `path`.
absl::StatusOr<uint64_t> FreeBytes(const std::string& path);

// Holds a directory for one process: a second one is refused while this object lives. The lock is
// the kernel's, so it ends with the process however that ends.
class DirectoryLock {
 public:
  // UNAVAILABLE if somebody else holds it.
  static absl::StatusOr<DirectoryLock> Acquire(const std::string& path);
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace duetime::storage
