// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/file_system.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::storage {
namespace {

constexpr mode_t kDirectoryMode = S_IRWXU;

}  // namespace

absl::Status SystemError(absl::string_view action, absl::string_view path, int error_number) {
  return absl::InternalError(absl::StrCat("cannot ", action, " ", path, ": ",
                                          std::generic_category().message(error_number)));
}

absl::Status CreateDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return SystemError("create directory", path, errno);
  }
  return SyncParentDirectory(path);
}

absl::Status SyncParentDirectory(const std::string& path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (parent.empty()) parent = ".";
  const int fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", parent.native(), errno);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  if (result != 0) return SystemError("sync directory", parent.native(), error_number);
  return absl::OkStatus();
}

absl::Status TruncateFile(const std::string& path, uint64_t size) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  const bool done = ::ftruncate(fd, static_cast<off_t>(size)) == 0 && ::fsync(fd) == 0;
  const int error_number = errno;
  ::close(fd);
  return done ? absl::OkStatus() : SystemError("truncate", path, error_number);
}

absl::StatusOr<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return SystemError("get the free space of", path, errno);
  return uint64_t{info.f_bavail} * info.f_frsize;
}

absl::Status CheckRoomForStore(const std::string& path, uint64_t bytes) {
  // Beside the bytes: logs, and tables that compactions replace.
  constexpr uint64_t kMoreBytes = uint64_t{256} << 20;
  const absl::StatusOr<uint64_t> free = FreeBytes(path);
  if (!free.ok()) return free.status();
  const uint64_t needed = bytes + kMoreBytes;
  if (*free >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has ", *free, " bytes of free space; ", needed, " are needed"));
}

absl::Status ProbeDirectory(const std::string& path, uint64_t bytes) {
  constexpr size_t kFiles = 64;
  std::vector<int> open;
  while (open.size() < kFiles) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) break;
    open.push_back(fd);
  }
  const int open_error = open.size() < kFiles ? errno : 0;
  for (const int fd : open) ::close(fd);
  if (open_error != 0) return SystemError("open", path, open_error);

  const std::string file = path + "/probe";
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return SystemError("create", file, errno);
  ::unlink(file.c_str());
  int error_number = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error_number == 0 && ::fsync(fd) != 0) error_number = errno;
  ::close(fd);
  return error_number == 0 ? absl::OkStatus() : SystemError("write", file, error_number);
}

absl::StatusOr<DirectoryLock> DirectoryLock::Acquire(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  DirectoryLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::UnavailableError(
          absl::StrCat("data directory ", path, " is in use by another process"));
    }
    return SystemError("lock", path, errno);
  }
  return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace duetime::storage
