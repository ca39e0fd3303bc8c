// SPDX-License-Identifier: Apache-2.0
#include "client/cli/terminal/signals.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "client/cli/show.h"

namespace duetime::cli {
namespace {

// How long a thread that is to end may wait for a signal.
constexpr absl::Duration kPause = absl::Milliseconds(20);

// What OnSignal writes to. A signal may arrive on any thread.
std::atomic<int> write_end = -1;
std::atomic<bool> interrupted = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void OnSignal(int signal) {
  const int error = errno;
  if (signal == SIGINT || signal == SIGTERM) interrupted = true;
  const char byte = static_cast<char>(signal);
  // A full pipe holds signals enough.
  [[maybe_unused]] const ssize_t written = write(write_end, &byte, 1);
  errno = error;
}

}  // namespace

Signals::Signals(std::initializer_list<int> signals) {
  int ends[2] = {-1, -1};
  [[maybe_unused]] const int made = pipe2(ends, O_CLOEXEC | O_NONBLOCK);
  read_ = ends[0];
  write_end = ends[1];
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    before_.emplace_back(signal, action);
    sigaction(signal, &action, &before_.back().second);
  }
}

Signals::~Signals() {
  for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  close(write_end.exchange(-1));
  close(read_);
}

int Signals::Wait(absl::Duration timeout) {
  pollfd ready = {.fd = read_, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) < 0 && errno != EINTR) {
    return 0;
  }
  char signal = 0;
  return read(read_, &signal, 1) == 1 ? signal : 0;
}

bool Signals::Interrupted() const { return interrupted; }

LastLine::LastLine(const Settings& settings, std::function<std::string()> text)
    : settings_(settings), text_(std::move(text)), thread_([this](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          if (const int signal = signals_.Wait(kPause); signal != 0) End(signal);
        }
      }) {}

LastLine::~LastLine() {
  thread_.request_stop();
  thread_.join();
}

void LastLine::End(int signal) const {
  if (settings_.json) {
    PrintError(ErrorJson(absl::CancelledError(text_())));
  } else {
    // Removes a line of progress.
    PrintError(absl::StrCat(isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "", text_(), "\n"));
  }
  constexpr int kEndedBySignal = 128;
  _exit(kEndedBySignal + signal);
}

}  // namespace duetime::cli
