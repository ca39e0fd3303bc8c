// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/listener.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/listen_sockets.h"
#include "server/rpc/connection_cuts.h"

namespace duetime::rpc {
namespace {

constexpr int kBacklog = 1'024;
// The pause when no file descriptor is left, so that other code can close some.
constexpr int kOutOfFilesWaitMs = 100;
// The thread accepts this many connections, and then looks at its other descriptors.
constexpr int kAcceptAtOnce = 64;
constexpr int64_t kTickNanos = 500'000'000;
// A flood of connections is one line in ten seconds.
constexpr uint64_t kTicksPerReport = 20;

absl::Status SocketError(const std::string& address, const char* what, int error) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", what, ": ",
                                             std::system_category().message(error)));
}

// A socket address in the form the system calls take.
const sockaddr* Generic(const void* address) { return static_cast<const sockaddr*>(address); }
sockaddr* Generic(void* address) { return static_cast<sockaddr*>(address); }

// The key of a peer's limit. A peer has all addresses of its IPv6 network.
std::string PeerOf(const sockaddr_storage& address) {
  constexpr size_t kNetworkBytes = 8;
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof(v4));
    return absl::StrCat("4/", v4.sin_addr.s_addr);
  }
  if (address.ss_family != AF_INET6) return "";
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address, sizeof(v6));
  const auto* bytes = static_cast<const char*>(static_cast<const void*>(&v6.sin6_addr));
  if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return std::string(bytes, kNetworkBytes);
  uint32_t v4 = 0;
  std::memcpy(&v4, bytes + sizeof(v6.sin6_addr) - sizeof(v4), sizeof(v4));
  return absl::StrCat("4/", v4);
}

// True if a server answers on the socket at `address`.
bool IsAlive(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;  // unknown, so leave the socket alone
  const bool alive = connect(fd, Generic(&address), sizeof(address)) == 0 || errno == EAGAIN;
  close(fd);
  return alive;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::vector<std::string>& addresses,
                                                         bool allow_nonlocal,
                                                         const ConnectionTable::Limits& limits) {
  std::unique_ptr<Listener> listener(new Listener(limits));
  if (addresses.empty()) return absl::InvalidArgumentError("no address to listen on");
  for (const std::string& text : addresses) {
    const absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
    if (!address.ok()) return address.status();
    if (!address->IsLocal() && !allow_nonlocal) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot listen on ", text,
                       ": other machines can reach it, so it needs TLS or insecure_nonloopback"));
    }
    if (absl::Status status = listener->Add(*address); !status.ok()) return status;
  }
  int fds[2] = {-1, -1};
  if (pipe2(fds, O_CLOEXEC) != 0) return SocketError("a pipe", "pipe", errno);
  listener->stop_read_fd_ = fds[0];
  listener->stop_write_fd_ = fds[1];
  listener->timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const timespec tick{.tv_sec = 0, .tv_nsec = kTickNanos};
  const itimerspec period{.it_interval = tick, .it_value = tick};
  if (listener->timer_fd_ < 0 || timerfd_settime(listener->timer_fd_, 0, &period, nullptr) != 0) {
    return SocketError("a timer", "timerfd", errno);
  }
  return listener;
}

Listener::~Listener() { Stop(); }

absl::Status Listener::Add(const ListenAddress& address) {
  return address.unix_path.empty() ? AddTcp(address.host, address.port)
                                   : AddUnix(address.unix_path);
}

absl::Status Listener::AddUnix(const std::string& path) {
  const std::string name = absl::StrCat("unix:", path);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", path.size(), " bytes, limit ", sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat existing {};
  if (lstat(path.c_str(), &existing) == 0) {
    if (!S_ISSOCK(existing.st_mode)) return SocketError(name, "a file that is no socket", EEXIST);
    if (IsAlive(address)) return SocketError(name, "bind", EADDRINUSE);
    unlink(path.c_str());
  }
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SocketError(name, "socket", errno);
  if (bind(fd, Generic(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(fd);
    return SocketError(name, "bind", error);
  }
  sockets_.push_back({.fd = fd, .unix_path = path});
  // The directory's permissions and the process's umask decide which users may connect.
  if (listen(fd, kBacklog) != 0) return SocketError(name, "listen", errno);
  bound_.push_back(name);
  return absl::OkStatus();
}

absl::Status Listener::AddTcp(const std::string& host, uint16_t port) {
  absl::StatusOr<std::vector<base::ListenSocket>> opened = base::ListenOn(host, port, kBacklog);
  if (!opened.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", base::HostAndPort(host, port),
                                               ": ", opened.status().message()));
  }
  for (base::ListenSocket& socket : *opened) {
    sockets_.push_back({.fd = socket.fd, .unix_path = ""});
    bound_.push_back(std::move(socket.address));
  }
  return absl::OkStatus();
}

void Listener::Start(std::unique_ptr<Acceptor> tcp, std::unique_ptr<Acceptor> local) {
  tcp_ = std::move(tcp);
  local_ = std::move(local);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "rpc-accept");
}

void Listener::Stop() {
  if (stop_write_fd_ >= 0) close(std::exchange(stop_write_fd_, -1));
  if (thread_.joinable()) thread_.join();
  if (stop_read_fd_ >= 0) close(std::exchange(stop_read_fd_, -1));
  if (timer_fd_ >= 0) close(std::exchange(timer_fd_, -1));
  for (const Socket& socket : sockets_) {
    close(socket.fd);
    if (!socket.unix_path.empty()) unlink(socket.unix_path.c_str());
  }
  sockets_.clear();
}

void Listener::Run() {
  std::vector<pollfd> polled;
  for (const Socket& socket : sockets_) {
    polled.push_back({.fd = socket.fd, .events = POLLIN, .revents = 0});
  }
  polled.push_back({.fd = timer_fd_, .events = POLLIN, .revents = 0});
  polled.push_back({.fd = stop_read_fd_, .events = POLLIN, .revents = 0});
  for (;;) {
    if (poll(polled.data(), polled.size(), -1) < 0) {
      DT_CHECK_EQ(errno, EINTR);
      continue;
    }
    if (polled.back().revents != 0) return;
    if (polled[sockets_.size()].revents != 0) OnTick();
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (polled[i].revents == 0 || AcceptSome(sockets_[i])) continue;
      spdlog::warn("cannot accept a connection: {}; trying again",
                   std::system_category().message(errno));
      pollfd stop = {.fd = stop_read_fd_, .events = POLLIN, .revents = 0};
      if (poll(&stop, 1, kOutOfFilesWaitMs) > 0) return;
    }
  }
}

void Listener::OnTick() {
  uint64_t expirations = 0;
  static_cast<void>(!read(timer_fd_, &expirations, sizeof(expirations)));
  table_.Sweep();
  connections_.store(table_.size(), std::memory_order_relaxed);
  const uint64_t refused = refused_.load(std::memory_order_relaxed);
  if (ticks_++ % kTicksPerReport != 0 || refused == refused_logged_) return;
  spdlog::warn(
      "{} connections refused because of connections_max or connections_per_peer_max, the last one "
      "of {}; {} are open",
      refused - std::exchange(refused_logged_, refused), last_refused_, table_.size());
}

bool Listener::AcceptSome(const Socket& socket) {
  for (int accepted = 0; accepted < kAcceptAtOnce; ++accepted) {
    sockaddr_storage peer{};
    socklen_t peer_bytes = sizeof(peer);
    const int fd = accept4(socket.fd, Generic(&peer), &peer_bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
    }
    if (!table_.Admit(fd, PeerOf(peer))) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      last_refused_ = PeerText(fd);
      close(fd);
      continue;
    }
    connections_.store(table_.size(), std::memory_order_relaxed);
    const bool tcp = socket.unix_path.empty();
    if (tcp) {
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    Acceptor::NewConnectionParameters parameters;
    parameters.listener_fd = socket.fd;
    parameters.fd = fd;
    (tcp ? tcp_ : local_)->HandleNewConnection(&parameters);
  }
  return true;
}

}  // namespace duetime::rpc
