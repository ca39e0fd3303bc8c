// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/unix_peer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/check.h"

namespace duetime::rpc {
namespace {

constexpr char kUserPath[] = "/user/";

using GetPeerName = int (*)(int, sockaddr*, socklen_t*);

GetPeerName NextGetPeerName() {
  static const auto next = reinterpret_cast<GetPeerName>(dlsym(RTLD_NEXT, "getpeername"));
  DT_CHECK(next != nullptr);
  return next;
}

// The address for a connected Unix socket. Empty if the kernel does not know the peer.
std::optional<sockaddr_un> UserAddress(int fd) {
  ucred user = {};
  socklen_t size = sizeof(user);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size) != 0) return std::nullopt;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = absl::StrCat(kUserPath, user.uid);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

}  // namespace

std::optional<uint32_t> UnixUserOf(absl::string_view peer) {
  uint32_t user = 0;
  if (!absl::ConsumePrefix(&peer, absl::StrCat("unix:", kUserPath)) ||
      !absl::SimpleAtoi(peer, &user)) {
    return std::nullopt;
  }
  return user;
}

}  // namespace duetime::rpc

// Takes the place of libc's function in this program and in its shared libraries.
extern "C" int getpeername(int fd,
                           sockaddr* address,  // NOLINT(readability-identifier-naming): libc's name
                           socklen_t* length) noexcept {
  const socklen_t room = *length;
  const int result = duetime::rpc::NextGetPeerName()(fd, address, length);
  if (result != 0 || room < sizeof(sa_family_t) || address->sa_family != AF_UNIX) return result;
  const auto user = duetime::rpc::UserAddress(fd);
  if (!user.has_value()) return result;
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(user->sun_path) + 1);
  std::memcpy(address, &*user, std::min(room, size));
  *length = size;
  return result;
}
