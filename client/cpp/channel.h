// SPDX-License-Identifier: Apache-2.0
//
// How to reach a server.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
}

namespace duetime::client {

// Where the server is and how to talk to it.
struct ServerAddress {
  // "host:port" or "unix:/path/to.sock".
  std::string target = "127.0.0.1:7788";
  // The client uses TLS if any of the three is set. `tls_ca_file` (PEM) holds the trusted
  // certificates; empty means the system's roots. `tls_cert_file` and `tls_key_file` (PEM) are the
  // client's own, for servers that ask for them: both or neither.
  std::string tls_ca_file{};
  std::string tls_cert_file{};
  std::string tls_key_file{};
  // Sent with each call as "authorization: Bearer TOKEN", for servers that ask for it; or the name
  // of a file that holds the token. At most one of the two, and only with TLS.
  std::string token{};
  std::string token_file{};
  // The target is a DNS name with the addresses of all members of a cell. Calls go to the one that
  // leads.
  bool members_by_dns = false;
};

// True for the members of a cell, of which one leads.
inline bool HasSeveralAddresses(const std::string& target) {
  return target.find(',') != std::string::npos;
}

// The token of the address; empty if there is none. Errors as of OpenChannel.
absl::StatusOr<std::string> ReadToken(const ServerAddress& address);

// Opens a new channel. Channels share no connection, so that two clients can use two cores. Returns
// at once. The first call connects; a broken connection is restored within seconds.
//
//   INVALID_ARGUMENT   the target is empty, only one of cert and key is given, or there is a token
//                      without TLS, two tokens, or an empty one
//   NOT_FOUND          a file cannot be read
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const ServerAddress& address);

}  // namespace duetime::client
