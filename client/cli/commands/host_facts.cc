// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/host_facts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <linux/magic.h>
#include <sstream>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "server/base/cores.h"

namespace duetime::cli {
namespace {

constexpr int kSyncs = 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The number behind `label` in a text of lines; 0 if there is none.
int64_t NumberBehind(const std::string& text, absl::string_view label) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, label)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    if (words.empty()) return 0;
    if (words[0] == "unlimited") return kNoLimit;
    int64_t number = 0;
    return absl::SimpleAtoi(words[0], &number) ? number : 0;
  }
  return 0;
}

// How long each of some synced writes takes. The size is that of a few messages.
std::vector<absl::Duration> MeasureSyncs(const std::string& directory) {
  std::string name = directory + "/duetime-doctor-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return {};
  const std::array<char, 4096> block{};
  std::vector<absl::Duration> syncs;
  for (int i = 0; i < kSyncs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (::write(fd, block.data(), block.size()) != std::ssize(block) || ::fdatasync(fd) != 0) break;
    syncs.push_back(absl::FromChrono(std::chrono::steady_clock::now() - start));
  }
  ::close(fd);
  ::unlink(name.c_str());
  return syncs;
}

// The process that holds the lock of the database, or 0.
pid_t FindHolder(const std::string& directory) {
  const int fd = ::open((directory + "/db/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const int result = ::fcntl(fd, F_GETLK, &lock);
  ::close(fd);
  return result == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

// The memory that the control group of a process and the groups above it may use.
int64_t ReadGroupMemoryMax(const std::string& process) {
  int64_t least = kNoLimit;
  for (const std::string& group : base::ControlGroups(process, base::kControlGroupRoot, "memory")) {
    int64_t max = 0;
    if (absl::SimpleAtoi(ReadText(group + "/memory.max"), &max)) least = std::min(least, max);
  }
  return least;
}

}  // namespace

KernelClock ReadKernelClock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  return {.synchronised = state >= 0 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
          .error_max = absl::Microseconds(clock.maxerror)};
}

absl::StatusOr<DiskFacts> ReadDisk(const std::string& directory) {
  struct statvfs space {};
  struct statfs kind {};
  if (::statvfs(directory.c_str(), &space) != 0 || ::statfs(directory.c_str(), &kind) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", directory));
  }
  const auto block = static_cast<int64_t>(space.f_frsize);
  DiskFacts facts;
  facts.free_bytes = static_cast<int64_t>(space.f_bavail) * block;
  facts.size_bytes = static_cast<int64_t>(space.f_blocks) * block;
  facts.in_memory = kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC;
  facts.syncs = MeasureSyncs(directory);
  return facts;
}

int64_t ReadOpenFilesMax(const std::string& limits) {
  return NumberBehind(limits, "Max open files");
}

absl::StatusOr<ProcessFacts> ReadProcess(const std::string& directory) {
  const pid_t holder = FindHolder(directory);
  if (holder <= 0) return absl::NotFoundError("no server of this machine uses the data directory");
  const std::string process = absl::StrCat("/proc/", holder);
  ProcessFacts facts;
  facts.open_files_max = ReadOpenFilesMax(ReadText(process + "/limits"));
  const std::string status = ReadText(process + "/status");
  facts.resident_bytes = NumberBehind(status, "VmRSS:") * 1024;
  facts.threads = NumberBehind(status, "Threads:");
  facts.cores = static_cast<int64_t>(base::UsableCores(process));
  facts.memory_max = std::min(NumberBehind(ReadText("/proc/meminfo"), "MemTotal:") * 1024,
                              ReadGroupMemoryMax(process));
  if (facts.open_files_max == 0) {
    return absl::NotFoundError(absl::StrCat("this user may not look at the process ", holder));
  }
  return facts;
}

}  // namespace duetime::cli
