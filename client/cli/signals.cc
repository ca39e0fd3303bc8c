// SPDX-License-Identifier: Apache-2.0
#include "client/cli/signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace duetime::cli {

Signals::Signals(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  fd_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

Signals::~Signals() {
  // A signal that came meanwhile must not end the program when it is about to end in order.
  while (Wait(absl::ZeroDuration()) != 0) {
  }
  close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int Signals::Wait(absl::Duration timeout) {
  pollfd ready = {.fd = fd_, .events = POLLIN, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return 0;
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof(info)) != sizeof(info)) return 0;
  const int signal = static_cast<int>(info.ssi_signo);
  interrupted_ = interrupted_ || signal == SIGINT || signal == SIGTERM;
  return signal;
}

bool Signals::Interrupted() {
  while (!interrupted_ && Wait(absl::ZeroDuration()) != 0) {
  }
  return interrupted_;
}

}  // namespace duetime::cli
