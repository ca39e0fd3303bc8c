// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/service_notify.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace duetime::runtime {
namespace {

std::string Variable(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void NotifySupervisor(absl::string_view state) {
  const std::string path = Variable("NOTIFY_SOCKET");
  sockaddr_un address = {};
  // A path, or an abstract name, which begins with @.
  const bool known = path.size() > 1 && (path[0] == '/' || path[0] == '@');
  if (!known || path.size() >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  // A lost message is not worth more: the supervisor waits for the next one, or gives up.
  static_cast<void>(sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), size));
  close(fd);
}

bool SupervisorWatches() {
  const std::string process = Variable("WATCHDOG_PID");
  return !Variable("WATCHDOG_USEC").empty() &&
         (process.empty() || process == std::to_string(getpid()));
}

}  // namespace duetime::runtime
