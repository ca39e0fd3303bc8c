// SPDX-License-Identifier: Apache-2.0
//
// Addresses to listen on: "127.0.0.1:7788", "[::1]:7788", "localhost:7788",
// "unix:/run/duetime/duetime.sock".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::rpc {

// A parsed address.
struct ListenAddress {
  // Path of a Unix socket; empty for TCP.
  std::string unix_path;
  // The host as written, without the brackets of IPv6.
  std::string host;
  // 0 lets the system choose.
  uint16_t port = 0;

  // True if only this machine can reach the address: a Unix socket, 127.0.0.0/8, ::1 or
  // "localhost".
  bool IsLocal() const;
};

// INVALID_ARGUMENT for anything that is not host:port or unix:/absolute/path. Names are not
// resolved.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text);

}  // namespace duetime::rpc
