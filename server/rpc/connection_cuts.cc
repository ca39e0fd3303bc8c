// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/connection_cuts.h"

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <optional>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "absl/strings/str_cat.h"

#include "server/base/clock.h"

namespace duetime::rpc {
namespace {

template <typename Address>
Address As(const sockaddr_storage& from) {
  Address to{};
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace

std::string PeerText(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, static_cast<sockaddr*>(static_cast<void*>(&address)), &size) != 0) {
    return "a client that has closed its connection";
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto v4 = As<sockaddr_in>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return absl::StrCat(text.data(), ":", ntohs(v4.sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto v6 = As<sockaddr_in6>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return absl::StrCat("[", text.data(), "]:", ntohs(v6.sin6_port));
  }
  // See unix_peer.h: the address names the user.
  const auto local = As<sockaddr_un>(address);
  return absl::StrCat("unix:",
                      std::string(local.sun_path, strnlen(local.sun_path, sizeof(local.sun_path))));
}

void ConnectionCuts::Report(const std::string& peer, const char* limit, absl::string_view why) {
  stats_->connections_cut.fetch_add(1, std::memory_order_relaxed);
  std::optional<uint64_t> dropped;
  {
    const base::MutexLock lock(&mutex_);
    dropped = lines_.Pass(limit, 0, base::ReadMicros() / 1'000);
  }
  if (!dropped.has_value()) return;
  spdlog::warn("closed the connection of {}: {} ({}; {} more such lines were left out)", peer,
               std::string(why), limit, *dropped);
}

}  // namespace duetime::rpc
