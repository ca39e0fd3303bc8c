// SPDX-License-Identifier: Apache-2.0
#include "client/cli/directory_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace duetime::cli {

absl::StatusOr<DirectoryLock> DirectoryLock::Take(const std::string& directory, IfTaken if_taken) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", directory));
  DirectoryLock lock(fd);
  while (flock(fd, if_taken == IfTaken::kWait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return absl::UnavailableError("another process has the lock");
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", directory));
  }
  return lock;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace duetime::cli
