// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/socket_watch.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <dlfcn.h>
#include <optional>
#include <sys/socket.h>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace duetime::rpc {
namespace {

// One connection.
class Watched {
 public:
  Watched(int fd, uint64_t cookie, const WatchTerms& terms)
      : fd_(fd),
        cookie_(cookie),
        terms_(terms),
        requests_(terms.watchdog, fd, cookie),
        budget_(terms.limits) {}

  uint64_t cookie() const { return cookie_; }

  // Takes the next `size` bytes, which are in the message. Returns false if the connection must be
  // closed.
  bool Take(const msghdr& message, size_t size) {
    uint64_t before = 0;
    uint64_t after = 0;
    const FrameBudget::Excess excess = TakeFrames(message, size, &before, &after);
    if (after != before) requests_.Set(after);
    if (excess == FrameBudget::Excess::kNone) return true;
    ReportExcess(terms_, fd_, excess);
    return false;
  }

 private:
  FrameBudget::Excess TakeFrames(const msghdr& message, size_t size, uint64_t* before,
                                 uint64_t* after) {
    const uint64_t now_us = base::ReadMicros();
    const base::MutexLock lock(&mutex_);
    *before = budget_.unfinished_requests();
    for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
      const iovec& part = message.msg_iov[i];
      const size_t length = std::min(size, part.iov_len);
      const absl::string_view bytes(static_cast<const char*>(part.iov_base), length);
      const FrameBudget::Excess excess = budget_.Take(bytes, now_us);
      if (excess != FrameBudget::Excess::kNone) return excess;
      size -= length;
    }
    *after = budget_.unfinished_requests();
    return FrameBudget::Excess::kNone;
  }

  const int fd_;
  const uint64_t cookie_;
  const WatchTerms terms_;
  RequestWatchdog::Connection requests_;
  base::Mutex mutex_;
  FrameBudget budget_ ABSL_GUARDED_BY(mutex_);
};

// The watched sockets, by descriptor. An entry of a closed socket stays until its descriptor is
// watched again: there are at most as many entries as descriptors.
class Registry {
 public:
  void Add(int fd, std::shared_ptr<Watched> watched) {
    const base::MutexLock lock(&mutex_);
    sockets_[fd].swap(watched);  // the former one ends without the lock
  }
  std::shared_ptr<Watched> Find(int fd) {
    const base::MutexLock lock(&mutex_);
    const auto found = sockets_.find(fd);
    return found == sockets_.end() ? nullptr : found->second;
  }

 private:
  base::Mutex mutex_;
  absl::flat_hash_map<int, std::shared_ptr<Watched>> sockets_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed, because gRPC's threads may read until the process has ended.
Registry& WatchedSockets() {
  static Registry* const registry = new Registry;
  return *registry;
}

class WatchingAcceptor final : public ConnectionAcceptor {
 public:
  WatchingAcceptor(std::unique_ptr<ConnectionAcceptor> acceptor, const WatchTerms& terms)
      : acceptor_(std::move(acceptor)), terms_(terms) {}

  void HandleNewConnection(NewConnectionParameters* connection) override {
    if (const std::optional<uint64_t> cookie = CookieOf(connection->fd)) {
      WatchedSockets().Add(connection->fd,
                           std::make_shared<Watched>(connection->fd, *cookie, terms_));
    }
    acceptor_->HandleNewConnection(connection);
  }

 private:
  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  const WatchTerms terms_;
};

// True if the connection may go on after these bytes.
bool MayGoOn(int fd, const msghdr& message, size_t size) {
  const std::shared_ptr<Watched> watched = WatchedSockets().Find(fd);
  if (watched == nullptr || CookieOf(fd) != watched->cookie()) return true;
  return watched->Take(message, size);
}

using ReceiveMessage = ssize_t (*)(int, msghdr*, int);

ReceiveMessage NextReceiveMessage() {
  static const auto next = reinterpret_cast<ReceiveMessage>(dlsym(RTLD_NEXT, "recvmsg"));
  DT_CHECK(next != nullptr);
  return next;
}

}  // namespace

void ReportExcess(const WatchTerms& terms, int fd, FrameBudget::Excess excess) {
  const std::string peer = PeerText(fd);
  switch (excess) {
    case FrameBudget::Excess::kNone:
      return;
    case FrameBudget::Excess::kEarlyStreams:
      return terms.cuts->Report(peer, "a limit without a knob",
                                absl::StrCat("more than ", terms.limits.early_streams_max,
                                             " calls before it acknowledged the HTTP/2 settings"));
    case FrameBudget::Excess::kCancels:
      return terms.cuts->Report(peer, "connection_resets_max",
                                absl::StrCat("it reset calls faster than ",
                                             terms.limits.cancels_per_second, " in a second"));
    case FrameBudget::Excess::kIdle:
      return terms.cuts->Report(
          peer, "connection_idle_frames_max",
          absl::StrCat("it sent HTTP/2 frames without a call or message faster than ",
                       terms.limits.idle_per_second, " in a second"));
  }
}

std::unique_ptr<ConnectionAcceptor> WatchConnections(std::unique_ptr<ConnectionAcceptor> acceptor,
                                                     const WatchTerms& terms) {
  // Or nothing would be watched, without a word.
  DT_CHECK(dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg));
  return std::make_unique<WatchingAcceptor>(std::move(acceptor), terms);
}

}  // namespace duetime::rpc

// Takes the place of libc's function in this program and in its shared libraries.
extern "C" ssize_t recvmsg(int fd, msghdr* message,
                           int flags) {  // NOLINT(readability-identifier-naming): libc's name
  const ssize_t size = duetime::rpc::NextReceiveMessage()(fd, message, flags);
  if (size <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  if (duetime::rpc::MayGoOn(fd, *message, static_cast<size_t>(size))) return size;
  shutdown(fd, SHUT_RDWR);
  errno = ECONNRESET;
  return -1;
}
