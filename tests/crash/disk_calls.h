// SPDX-License-Identifier: Apache-2.0
//
// Takes the place of libc's calls to files, in a test program and in its shared libraries, so that
// a call can fail. RocksDB's writes and our own pass the same calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>

#include "tests/crash/disk_history.h"

namespace duetime::test {

// The kinds of calls, each with a count of its own.
enum class DiskCall : uint8_t {
  kWrite,     // write, pwrite
  kSync,      // fsync, fdatasync, of files and directories
  kOpen,      // open, also to read
  kTruncate,  // ftruncate, fallocate, posix_fallocate
  kRename,    // rename, unlink, remove, mkdir
};
inline constexpr DiskCall kDiskCalls[] = {DiskCall::kWrite, DiskCall::kSync, DiskCall::kOpen,
                                          DiskCall::kTruncate, DiskCall::kRename};

// The n-th call of a kind fails, n >= 1.
struct DiskFault {
  DiskCall call{};
  uint64_t n = 0;
  int error = 0;
  // All later calls of the kind fail as well.
  bool for_good = false;
  // The write puts half of its bytes and says so, and the next write fails. As the disk gets full.
  bool torn = false;
};

// The calls of a process. In memory that several processes share.
struct DiskCounters {
  std::array<std::atomic<uint64_t>, std::size(kDiskCalls)> calls{};
  // The calls that failed because of a fault.
  std::atomic<uint64_t> failed{0};
};

// From now on counts the calls of this process that concern files below `paths.live`, and writes
// their history; DiskHistory::Begin was called before. Syncs do not reach the real disk, so that
// tests are quick. `counters` outlives the process's threads. REQUIRES: no such file is open.
void WatchDisk(const DiskPaths& paths, DiskCounters* counters);

// The four below REQUIRE WatchDisk.

// The n-th call from WatchDisk on fails. nullopt: none.
void SetDiskFault(const std::optional<DiskFault>& fault);

// Which syncs return 0 and do nothing.
enum class SyncLies : uint8_t { kNone, kFiles, kDirectories, kAll };
void LieAboutSyncs(SyncLies lies);

// True if a table is being written.
bool WritesATable();

// libc's own.
namespace real {
int Open(const char* path, int flags, mode_t mode);
int Close(int fd);
ssize_t Write(int fd, const void* bytes, size_t size);
ssize_t WriteAt(int fd, const void* bytes, size_t size, off_t at);
int Truncate(int fd, off_t size);
}  // namespace real

}  // namespace duetime::test
