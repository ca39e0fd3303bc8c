// SPDX-License-Identifier: Apache-2.0
#include "server/base/listen_sockets.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"

namespace duetime::base {
namespace {

// Another program may have the port that the system chose for the first address.
constexpr int kPortsTried = 10;

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Found> Resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  return Found(found, &freeaddrinfo);
}

uint16_t BoundPort(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  DT_CHECK_EQ(getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), &size), 0);
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof(v4));
  return ntohs(v4.sin_port);
}

// Returns a descriptor, or -1 with the reason in errno.
int Bind(const addrinfo& address) {
  const int fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
      bind(fd, address.ai_addr, address.ai_addrlen) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool IsHere(const addrinfo& address) {
  const int fd = Bind(address);
  if (fd < 0) return errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT;
  close(fd);
  return true;
}

absl::StatusOr<ListenSocket> ListenOnOne(const std::string& address, uint16_t port, int backlog) {
  const absl::StatusOr<Found> found = Resolve(address, port, AI_NUMERICHOST);
  if (!found.ok()) return found.status();
  const int fd = Bind(**found);
  if (fd < 0 || listen(fd, backlog) != 0) {
    const int error = errno;
    if (fd >= 0) close(fd);
    return absl::UnavailableError(absl::StrCat("bind ", HostAndPort(address, port), ": ",
                                               std::system_category().message(error)));
  }
  const uint16_t bound = BoundPort(fd);
  return ListenSocket{.fd = fd, .port = bound, .address = HostAndPort(address, bound)};
}

absl::StatusOr<std::vector<ListenSocket>> ListenOnce(const std::vector<std::string>& addresses,
                                                     uint16_t port, int backlog) {
  std::vector<ListenSocket> sockets;
  for (const std::string& address : addresses) {
    absl::StatusOr<ListenSocket> opened = ListenOnOne(address, port, backlog);
    if (!opened.ok()) {
      for (const ListenSocket& socket : sockets) close(socket.fd);
      return opened.status();
    }
    port = opened->port;
    sockets.push_back(*std::move(opened));
  }
  return sockets;
}

}  // namespace

std::string HostAndPort(absl::string_view host, int port) {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<std::vector<std::string>> AddressesOf(const std::string& host) {
  const absl::StatusOr<Found> found = Resolve(host, /*port=*/0, /*flags=*/0);
  if (!found.ok()) return found.status();
  std::vector<std::string> all;
  std::vector<std::string> here;
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0 ||
        std::find(all.begin(), all.end(), text.data()) != all.end()) {
      continue;
    }
    all.emplace_back(text.data());
    if (IsHere(*one)) here.emplace_back(text.data());
  }
  return here.empty() ? all : here;
}

absl::StatusOr<std::vector<ListenSocket>> ListenOn(const std::vector<std::string>& addresses,
                                                   uint16_t port, int backlog) {
  absl::StatusOr<std::vector<ListenSocket>> sockets = ListenOnce(addresses, port, backlog);
  for (int tried = 1; !sockets.ok() && port == 0 && tried < kPortsTried; ++tried) {
    sockets = ListenOnce(addresses, port, backlog);
  }
  return sockets;
}

absl::StatusOr<std::vector<ListenSocket>> ListenOn(const std::string& host, uint16_t port,
                                                   int backlog) {
  const absl::StatusOr<std::vector<std::string>> addresses = AddressesOf(host);
  if (!addresses.ok()) return addresses.status();
  return ListenOn(*addresses, port, backlog);
}

}  // namespace duetime::base
