// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/disk_calls.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace duetime::test {
namespace {

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// All calls of the process, one at a time. Thread-safe.
class Watch {
 public:
  Watch(const DiskPaths& paths, DiskCounters* counters)
      : live_(paths.live), counters_(counters), history_(paths) {}

  int Open(const char* path, int flags, mode_t mode) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<std::string> name = NameOf(path);
    if (!name.has_value()) return real::Open(path, flags, mode);
    if (Fails(DiskCall::kOpen)) return -1;
    const int fd = real::Open(path, flags, mode);
    if (fd < 0) return fd;
    Opened opened = {.name = *name, .file = history_.FileOf(*name)};
    struct stat info = {};
    ::fstat(fd, &info);
    opened.directory = S_ISDIR(info.st_mode);
    opened.writes = (flags & (O_WRONLY | O_RDWR)) != 0;
    if (opened.file == 0 && !opened.directory) opened.file = history_.Create(*name);
    open_[fd] = std::move(opened);
    return fd;
  }

  int Close(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(fd);
    return real::Close(fd);
  }

  // Writes at the position of the descriptor, or at `at`.
  ssize_t Write(int fd, const void* bytes, size_t size, std::optional<off_t> at) {
    const auto write = [&](size_t length) {
      return at.has_value() ? real::WriteAt(fd, bytes, length, *at)
                            : real::Write(fd, bytes, length);
    };
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = open_.find(fd);
    if (it == open_.end()) return write(size);
    const bool torn = fault_.has_value() && fault_->torn && IsNext(DiskCall::kWrite) && size > 1;
    if (torn) {
      Count(DiskCall::kWrite);
      // Our own files take a short write for a failure, and do not write on.
      counters_->failed.fetch_add(1);
      // The next write is the one that fails.
      fault_->torn = false;
      ++fault_->n;
    } else if (Fails(DiskCall::kWrite)) {
      return -1;
    }
    const ssize_t written = write(torn ? size / 2 : size);
    if (written <= 0) return written;
    const auto length = static_cast<uint64_t>(written);
    // Also right for a file that was opened to append.
    const uint64_t end = at.has_value() ? static_cast<uint64_t>(*at) + length
                                        : static_cast<uint64_t>(::lseek(fd, 0, SEEK_CUR));
    history_.Write(it->second.file, end - length, end);
    return written;
  }

  int Sync(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = open_.find(fd);
    if (it == open_.end()) return 0;
    const Opened& opened = it->second;
    if (Fails(DiskCall::kSync)) {
      if (!opened.directory) history_.FailSync(opened.file);
      return -1;
    }
    const SyncLies lie = opened.directory ? SyncLies::kDirectories : SyncLies::kFiles;
    if (lies_ == SyncLies::kAll || lies_ == lie) return 0;
    if (opened.directory) {
      history_.SyncDirectory(opened.name);
      return 0;
    }
    const std::string path = "/proc/self/fd/" + std::to_string(fd);
    const int reader = real::Open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
    history_.Sync(opened.file, reader);
    real::Close(reader);
    return 0;
  }

  // A change of the size of an open file. The history needs no event: a sync keeps the size.
  template <typename Call>
  int Truncate(int fd, Call call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (open_.contains(fd) && Fails(DiskCall::kTruncate)) return -1;
    return call();
  }

  template <typename Call>
  int Rename(const char* from, const char* to, Call call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<std::string> old_name = NameOf(from);
    const std::optional<std::string> new_name = NameOf(to);
    if (!old_name.has_value() || !new_name.has_value()) return call();
    if (Fails(DiskCall::kRename)) return -1;
    const int result = call();
    if (result == 0) history_.Rename(*old_name, *new_name);
    return result;
  }

  // `call` makes or deletes the name.
  template <typename Call>
  int Change(const char* path, bool make, Call call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::optional<std::string> name = NameOf(path);
    if (!name.has_value()) return call();
    if (Fails(DiskCall::kRename)) return -1;
    const int result = call();
    if (result == 0 && make) history_.Create(*name);
    if (result == 0 && !make) history_.Unlink(*name);
    return result;
  }

  void SetFault(const std::optional<DiskFault>& fault) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fault_ = fault;
  }
  void Lie(SyncLies lies) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lies_ = lies;
  }
  bool WritesATable() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(open_.begin(), open_.end(), [](const auto& entry) {
      return entry.second.writes && entry.second.name.ends_with(".sst");
    });
  }

 private:
  struct Opened {
    std::string name;
    uint64_t file = 0;
    bool directory = false;
    bool writes = false;
  };

  // nullopt if the path is not below the directory. RocksDB sometimes writes "dir//file".
  std::optional<std::string> NameOf(const char* path) const {
    const std::string normal = std::filesystem::path(path).lexically_normal();
    if (normal == live_ || normal == live_ + "/") return "";
    if (!normal.starts_with(live_ + "/")) return std::nullopt;
    const std::string name = normal.substr(live_.size() + 1);
    return name.ends_with('/') ? name.substr(0, name.size() - 1) : name;
  }

  std::atomic<uint64_t>& Calls(DiskCall call) {
    return counters_->calls[static_cast<size_t>(call)];
  }
  uint64_t Count(DiskCall call) { return Calls(call).fetch_add(1) + 1; }
  bool IsNext(DiskCall call) { return fault_->call == call && Calls(call) + 1 == fault_->n; }

  // Counts the call and returns true, with errno set, if it must fail.
  bool Fails(DiskCall call) {
    const uint64_t n = Count(call);
    if (!fault_.has_value() || fault_->call != call) return false;
    if (fault_->for_good ? n < fault_->n : n != fault_->n) return false;
    counters_->failed.fetch_add(1);
    errno = fault_->error;
    return true;
  }

  const std::string live_;
  DiskCounters* const counters_;
  std::mutex mutex_;
  // mutex_ guards all members below.
  DiskHistory history_;
  std::map<int, Opened> open_;
  std::optional<DiskFault> fault_;
  SyncLies lies_ = SyncLies::kNone;
};

// Set before the process has threads, and never destroyed.
Watch* watch = nullptr;

}  // namespace

void WatchDisk(const DiskPaths& paths, DiskCounters* counters) {
  watch = new Watch(paths, counters);
}
void SetDiskFault(const std::optional<DiskFault>& fault) { watch->SetFault(fault); }
void LieAboutSyncs(SyncLies lies) { watch->Lie(lies); }
bool WritesATable() { return watch->WritesATable(); }

namespace real {

int Open(const char* path, int flags, mode_t mode) {
  static auto* const next = Next<int(const char*, int, ...)>("open");
  return next(path, flags, mode);
}
int Close(int fd) {
  static auto* const next = Next<int(int)>("close");
  return next(fd);
}
ssize_t Write(int fd, const void* bytes, size_t size) {
  static auto* const next = Next<ssize_t(int, const void*, size_t)>("write");
  return next(fd, bytes, size);
}
ssize_t WriteAt(int fd, const void* bytes, size_t size, off_t at) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return next(fd, bytes, size, at);
}
int Truncate(int fd, off_t size) {
  static auto* const next = Next<int(int, off_t)>("ftruncate");
  return next(fd, size);
}

}  // namespace real

namespace {

int SyncOf(int fd, const char* name) {
  if (watch != nullptr) return watch->Sync(fd);
  return Next<int(int)>(name)(fd);
}

}  // namespace
}  // namespace duetime::test

// libc's functions, by their names.
using duetime::test::Next;
using duetime::test::watch;
namespace real = duetime::test::real;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return watch != nullptr ? watch->Open(path, flags, mode) : real::Open(path, flags, mode);
}

int close(int fd) { return watch != nullptr ? watch->Close(fd) : real::Close(fd); }

ssize_t write(int fd, const void* bytes, size_t size) {
  if (watch == nullptr) return real::Write(fd, bytes, size);
  return watch->Write(fd, bytes, size, std::nullopt);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  if (watch == nullptr) return real::WriteAt(fd, bytes, size, at);
  return watch->Write(fd, bytes, size, at);
}

int fsync(int fd) { return duetime::test::SyncOf(fd, "fsync"); }

int fdatasync(int fd) { return duetime::test::SyncOf(fd, "fdatasync"); }

int ftruncate(int fd, off_t size) noexcept {
  if (watch == nullptr) return real::Truncate(fd, size);
  return watch->Truncate(fd, [=] { return real::Truncate(fd, size); });
}

int fallocate(int fd, int mode, off_t at, off_t size) {
  const auto call = [=] {
    return Next<int(int, int, off_t, off_t)>("fallocate")(fd, mode, at, size);
  };
  return watch != nullptr ? watch->Truncate(fd, call) : call();
}

// Returns the error, and does not set errno.
int posix_fallocate(int fd, off_t at, off_t size) {
  const auto call = [=] { return Next<int(int, off_t, off_t)>("posix_fallocate")(fd, at, size); };
  const int result = watch != nullptr ? watch->Truncate(fd, call) : call();
  return result < 0 ? errno : result;
}

int rename(const char* from, const char* to) noexcept {
  const auto call = [=] { return Next<int(const char*, const char*)>("rename")(from, to); };
  return watch != nullptr ? watch->Rename(from, to, call) : call();
}

int unlink(const char* path) noexcept {
  const auto call = [=] { return Next<int(const char*)>("unlink")(path); };
  return watch != nullptr ? watch->Change(path, /*make=*/false, call) : call();
}

int remove(const char* path) noexcept {
  const auto call = [=] { return Next<int(const char*)>("remove")(path); };
  return watch != nullptr ? watch->Change(path, /*make=*/false, call) : call();
}

int mkdir(const char* path, mode_t mode) noexcept {
  const auto call = [=] { return Next<int(const char*, mode_t)>("mkdir")(path, mode); };
  return watch != nullptr ? watch->Change(path, /*make=*/true, call) : call();
}

}  // extern "C"
