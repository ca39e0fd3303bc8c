// SPDX-License-Identifier: Apache-2.0
//
// GrpcServerOptions: the knobs of the gRPC shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace duetime::rpc {

struct GrpcServerOptions {
  // "host:port" or "unix:/path".
  std::vector<std::string> listen = {"127.0.0.1:7788"};
  // PEM files for TCP; empty means plaintext. With a client CA, clients must present a certificate
  // that it signed.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  // "require": each TLS client must present a certificate that tls_client_ca signed. "request": a
  // client may also have none, for example because it has a token.
  std::string tls_client_auth = "require";
  // Allows plaintext on addresses that other machines can reach.
  bool insecure_nonloopback = false;
  // Further connections are closed at once. A peer is an IPv4 address, or an IPv6 network of 64
  // bits.
  size_t connections_max = 10'000;
  size_t connections_per_peer_max = 5'000;
  // Completion queues, each with one thread. 0: half the cores, at least one.
  size_t io_threads = 0;
  // Calls that one connection may reset in a second, see FrameBudget.
  uint64_t connection_resets_max = 1'000;
  // Frames without a call or message that one connection may send in a second, see FrameBudget.
  uint64_t connection_idle_frames_max = 200'000;
  // The calls of all connections whose first message has not arrived, see RequestWatchdog.
  uint64_t unfinished_requests_max = 20'000;
  // The bytes of answers that clients have not read, see UntakenAnswers. Each completion queue has
  // an equal share.
  uint64_t untaken_answers_bytes_max = 256 << 20;
  // Unary calls that take as long are logged, see SlowLog. 0: none.
  uint64_t slow_request_ms = 1'000;
};

}  // namespace duetime::rpc
