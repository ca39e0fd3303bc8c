// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/log_writer.h"

#include <algorithm>
#include <cerrno>
#include <future>
#include <poll.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "server/base/mutex.h"

namespace duetime::runtime {
namespace {

// Writes all bytes, however long that takes. Returns the bytes that cannot be written.
absl::string_view WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
      static_cast<void>(poll(&room, 1, -1));
    } else if (errno != EINTR) {
      return bytes;
    }
  }
  return bytes;
}

}  // namespace

// Shared with the thread, which may outlive the writer.
struct LogWriter::State {
  State(const Options& options, Notice lost_notice)
      : fd(options.fd), bytes_max(options.bytes_max), notice(std::move(lost_notice)) {}

  void Run();
  // Waits for lines and takes them. Returns false when the writer closes and none are left.
  bool Take(std::string* lines) ABSL_LOCKS_EXCLUDED(mutex);
  // True if no line waits.
  bool Empty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return waiting.empty() && unreported == 0;
  }

  const int fd;
  const size_t bytes_max;
  const Notice notice;
  std::promise<void> ended;

  base::Mutex mutex;
  // For the thread: there is something to do.
  base::CondVar work;
  // For Flush: everything is written.
  base::CondVar idle;
  std::string waiting ABSL_GUARDED_BY(mutex);
  bool writing ABSL_GUARDED_BY(mutex) = false;
  bool closing ABSL_GUARDED_BY(mutex) = false;
  uint64_t lost ABSL_GUARDED_BY(mutex) = 0;
  // The part of `lost` that no line has reported.
  uint64_t unreported ABSL_GUARDED_BY(mutex) = 0;
};

bool LogWriter::State::Take(std::string* lines) {
  lines->clear();
  base::MutexLock lock(&mutex);
  writing = false;
  if (Empty()) idle.NotifyAll();
  while (Empty()) {
    if (closing) return false;
    work.Wait(&mutex);
  }
  lines->swap(waiting);
  // The lost lines came after those that waited.
  if (const uint64_t count = std::exchange(unreported, 0); count > 0) lines->append(notice(count));
  writing = true;
  return true;
}

void LogWriter::State::Run() {
  pthread_setname_np(pthread_self(), "dt-log");
  std::string lines;
  while (Take(&lines)) {
    const absl::string_view unwritten = WriteAll(fd, lines);
    const auto count = std::count(unwritten.begin(), unwritten.end(), '\n');
    base::MutexLock lock(&mutex);
    lost += static_cast<uint64_t>(count);
  }
  ended.set_value();
}

LogWriter::LogWriter(const Options& options, Notice notice)
    : state_(std::make_shared<State>(options, std::move(notice))),
      close_timeout_(options.close_timeout),
      thread_([state = state_] { state->Run(); }) {}

void LogWriter::Close() {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(&state_->mutex);
    state_->closing = true;
  }
  state_->work.NotifyOne();
  if (state_->ended.get_future().wait_for(close_timeout_) == std::future_status::ready) {
    thread_.join();
    return;
  }
  thread_.detach();
  base::MutexLock lock(&state_->mutex);
  state_->waiting.clear();
  state_->unreported = 0;
}

void LogWriter::Add(absl::string_view line) {
  {
    base::MutexLock lock(&state_->mutex);
    if (state_->closing || state_->waiting.size() + line.size() > state_->bytes_max) {
      ++state_->lost;
      if (!state_->closing) ++state_->unreported;
      return;
    }
    state_->waiting.append(line.data(), line.size());
  }
  state_->work.NotifyOne();
}

bool LogWriter::Flush(std::chrono::milliseconds timeout) {
  base::MutexLock lock(&state_->mutex);
  while (state_->writing || !state_->Empty()) {
    if (!state_->idle.WaitFor(&state_->mutex, timeout)) {
      return !state_->writing && state_->Empty();
    }
  }
  return true;
}

uint64_t LogWriter::lost() const {
  base::MutexLock lock(&state_->mutex);
  return state_->lost;
}

}  // namespace duetime::runtime
