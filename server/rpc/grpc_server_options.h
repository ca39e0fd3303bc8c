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
  // Allows plaintext on addresses that other machines can reach.
  bool insecure_nonloopback = false;
  // Completion queues, each with one thread. 0: half the cores, at least one.
  size_t io_threads = 0;
};

}  // namespace duetime::rpc
