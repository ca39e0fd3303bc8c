// SPDX-License-Identifier: Apache-2.0
//
// WriteAll: writes to a descriptor until nothing is left.
#pragma once

#include <cerrno>
#include <poll.h>
#include <unistd.h>

#include "absl/strings/string_view.h"

namespace duetime::base {

// Returns false after an error, which is in errno.
inline bool WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // A pipe that another program has set so that writes do not block.
      pollfd ready = {.fd = file, .events = POLLOUT, .revents = 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace duetime::base
