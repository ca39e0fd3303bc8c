// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/request_watchdog.h"

#include <algorithm>
#include <string>
#include <sys/socket.h>
#include <utility>

#include "absl/strings/str_cat.h"

namespace duetime::rpc {

std::optional<uint64_t> CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return std::nullopt;
  return cookie;
}

RequestWatchdog::Connection::Connection(std::shared_ptr<RequestWatchdog> watchdog, int fd,
                                        uint64_t cookie)
    : watchdog_(std::move(watchdog)), fd_(fd), cookie_(cookie) {
  const base::MutexLock lock(&watchdog_->mutex_);
  watchdog_->connections_.insert(this);
}

RequestWatchdog::Connection::~Connection() {
  const base::MutexLock lock(&watchdog_->mutex_);
  watchdog_->connections_.erase(this);
  watchdog_->open_ -= open_;
}

void RequestWatchdog::Connection::Set(uint64_t open) {
  const base::MutexLock lock(&watchdog_->mutex_);
  if (closed_) return;
  watchdog_->open_ += open - open_;
  open_ = open;
  if (watchdog_->open_ > watchdog_->open_max_) watchdog_->CloseWorst();
}

void RequestWatchdog::CloseWorst() {
  // A connection may have outlived its socket, and gRPC its calls.
  for (Connection* const each : connections_) {
    if (each->open_ == 0 || CookieOf(each->fd_) == each->cookie_) continue;
    open_ -= std::exchange(each->open_, 0);
    each->closed_ = true;
  }
  while (open_ > open_max_) {
    Connection* const worst =
        *std::max_element(connections_.begin(), connections_.end(),
                          [](const auto* a, const auto* b) { return a->open_ < b->open_; });
    const uint64_t open = std::exchange(worst->open_, 0);
    open_ -= open;
    worst->closed_ = true;
    // If the socket is closed already, its descriptor may be another socket's.
    if (CookieOf(worst->fd_) != worst->cookie_) continue;
    const std::string peer = PeerText(worst->fd_);
    shutdown(worst->fd_, SHUT_RDWR);
    cuts_->Report(peer, "unfinished_requests_max",
                  absl::StrCat("it had the most unfinished requests, ", open,
                               ", and all connections together had more than ", open_max_));
  }
}

}  // namespace duetime::rpc
