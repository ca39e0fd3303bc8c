// SPDX-License-Identifier: Apache-2.0
//
// The listen address of the console, and the addresses of the server and its metrics. Pure
// functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cpp/channel.h"

namespace duetime::cli {

struct ConsoleAddress {
  std::string host;
  int port = 0;

  // "host:port", with brackets around an address of IPv6.
  std::string Text() const;
  // True for an address or a name that leads to this machine only.
  bool IsLoopback() const;
  // True for an address that means every one of this machine.
  bool IsWildcard() const;
};

// Reads "host:port", with brackets around an address of IPv6.
// INVALID_ARGUMENT with the name of the option.
absl::StatusOr<ConsoleAddress> ReadConsoleAddress(const std::string& option,
                                                  absl::string_view text);

// A name by which browsers reach the console: "name" or "name:port", without a scheme. Returns the
// value of Host that such a browser sends. INVALID_ARGUMENT with the name of the option.
absl::StatusOr<std::string> ReadPublicHost(const std::string& option, absl::string_view text);

// True if the calls to the server use TLS or stay on this machine, so that the network cannot read
// their tokens.
bool IsPrivateWay(const client::ServerAddress& server);

}  // namespace duetime::cli
