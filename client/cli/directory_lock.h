// SPDX-License-Identifier: Apache-2.0
//
// DirectoryLock: one process at a time works on the files of a directory.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace duetime::cli {

// The kernel ends the lock with the process, in whatever way it ends.
class DirectoryLock {
 public:
  enum class IfTaken { kWait, kFail };

  // UNAVAILABLE if another process has the lock and the caller does not wait. Other errors as of
  // the operating system.
  static absl::StatusOr<DirectoryLock> Take(const std::string& directory, IfTaken if_taken);
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_;
};

}  // namespace duetime::cli
