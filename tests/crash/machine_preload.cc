// SPDX-License-Identifier: Apache-2.0
//
// A library for LD_PRELOAD that takes the place of libc's clock and of its calls that need space on
// disk; machine_control.h says what a test sets. Steady clocks are the machine's.
//
// A wait with a deadline by the wall clock lasts until the daemon's clock shows the deadline, but
// does not see steps of the clock that come during the wait.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/crash/machine_control.h"

namespace duetime::crash {
namespace {

constexpr int64_t kNanos = 1'000'000'000;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Null without a file.
const MachineControl* MapControl() {
  const char* const path = std::getenv(kMachineFile);
  const int file = path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const map = ::mmap(nullptr, sizeof(MachineControl), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  return map == MAP_FAILED ? nullptr : static_cast<const MachineControl*>(map);
}

const MachineControl* Control() {
  static const MachineControl* const control = MapControl();
  return control;
}

timespec Plus(const timespec& time, int64_t nanos) {
  const int64_t all = time.tv_sec * kNanos + time.tv_nsec + nanos;
  return {.tv_sec = all / kNanos, .tv_nsec = all % kNanos};
}

int64_t OffsetNanos() {
  const MachineControl* const control = Control();
  return control == nullptr ? 0 : control->clock_offset_ns.load(std::memory_order_relaxed);
}

// The moment of the machine's clock at which the daemon's shows `deadline`.
timespec Deadline(const timespec& deadline) {
  const timespec moved = Plus(deadline, -OffsetNanos());
  return moved.tv_sec < 0 ? timespec{} : moved;
}

// Whether a write to this descriptor finds no space.
bool NoSpace(int fd) {
  const MachineControl* const control = Control();
  if (control == nullptr || control->disk_full.load(std::memory_order_relaxed) == 0) return false;
  const char* const disk = std::getenv(kMachineDisk);
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof(path));
  const size_t length = disk == nullptr ? 0 : std::strlen(disk);
  return length > 0 && size > static_cast<ssize_t>(length) &&
         std::memcmp(path, disk, length) == 0 && path[length] == '/';
}

}  // namespace
}  // namespace duetime::crash

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const next = duetime::crash::Next<int(clockid_t, timespec*)>("clock_gettime");
  const int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    *time = duetime::crash::Plus(*time, duetime::crash::OffsetNanos());
  }
  return result;
}

int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec now{};
  const int result = clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1'000};
  return result;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

// A condition variable may count by the steady clock: its deadlines are years smaller.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* deadline) {
  static auto* const next =
      duetime::crash::Next<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)>(
          "pthread_cond_timedwait");
  constexpr time_t kYears = 1'000'000'000;
  if (deadline->tv_sec < kYears) return next(condition, mutex, deadline);
  const timespec moved = duetime::crash::Deadline(*deadline);
  return next(condition, mutex, &moved);
}

// abseil waits by this.
long syscall(long number, ...) noexcept {
  static auto* const next = duetime::crash::Next<long(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  timespec moved{};
  constexpr long kByWallClock = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
  if (number == SYS_futex && (words[1] & ~long{FUTEX_PRIVATE_FLAG}) == kByWallClock &&
      words[3] != 0) {
    moved = duetime::crash::Deadline(*reinterpret_cast<const timespec*>(words[3]));
    words[3] = reinterpret_cast<long>(&moved);
  }
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const next = duetime::crash::Next<ssize_t(int, const void*, size_t)>("write");
  if (!duetime::crash::NoSpace(fd)) return next(fd, bytes, size);
  errno = ENOSPC;
  return -1;
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  static auto* const next =
      duetime::crash::Next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (!duetime::crash::NoSpace(fd)) return next(fd, bytes, size, at);
  errno = ENOSPC;
  return -1;
}

int fallocate(int fd, int mode, off_t at, off_t size) {
  static auto* const next = duetime::crash::Next<int(int, int, off_t, off_t)>("fallocate");
  if (!duetime::crash::NoSpace(fd)) return next(fd, mode, at, size);
  errno = ENOSPC;
  return -1;
}

int posix_fallocate(int fd, off_t at, off_t size) {
  static auto* const next = duetime::crash::Next<int(int, off_t, off_t)>("posix_fallocate");
  return duetime::crash::NoSpace(fd) ? ENOSPC : next(fd, at, size);
}

}  // extern "C"
