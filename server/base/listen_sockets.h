// SPDX-License-Identifier: Apache-2.0
//
// The TCP sockets on which a server listens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::base {

// A socket that listens and does not block. Its owner closes `fd`.
struct ListenSocket {
  int fd = -1;
  uint16_t port = 0;
  // "127.0.0.1:7788", "[::1]:7788".
  std::string address;
};

// "host:port", with brackets around an address of IPv6.
std::string HostAndPort(absl::string_view host, int port);

// The IP addresses of `host`, a name or an address without brackets, each once and as text without
// brackets. Leaves out those that this machine does not have, such as ::1 without IPv6, unless it
// has none of them. UNAVAILABLE if the name does not resolve.
absl::StatusOr<std::vector<std::string>> AddressesOf(const std::string& host);

// Listens on all `addresses`, which are as AddressesOf returns them, with one port. The system
// chooses it if `port` is 0. UNAVAILABLE, with the reason, if one of them cannot be bound; all
// sockets are closed then.
absl::StatusOr<std::vector<ListenSocket>> ListenOn(const std::vector<std::string>& addresses,
                                                   uint16_t port, int backlog);
// On AddressesOf(host).
absl::StatusOr<std::vector<ListenSocket>> ListenOn(const std::string& host, uint16_t port,
                                                   int backlog);

}  // namespace duetime::base
