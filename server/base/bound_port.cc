// SPDX-License-Identifier: Apache-2.0
#include "server/base/bound_port.h"

#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

#include "server/base/check.h"

namespace duetime::base {

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

}  // namespace duetime::base
