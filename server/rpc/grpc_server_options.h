// SPDX-License-Identifier: Apache-2.0
//
// What main tells the gRPC face about itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/rpc/request_validation.h"

namespace duetime::rpc {

// Plain data; the defaults are those of the configuration.
struct GrpcServerOptions {
  // "host:port" or "unix:/path".
  std::vector<std::string> listen;
  // PEM files for TCP; empty means plaintext. With a client CA, clients must present a certificate
  // that it signed.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  // Allows plaintext on addresses that other machines can reach.
  bool insecure_nonloopback = false;
  // Completion queues, each with one thread. 0: half the cores, at least one.
  size_t io_threads = 0;
  RequestLimits limits;
  size_t topics_max = 100'000;
  // Of each topic.
  size_t subscriptions_max = 1'000;
  // Whether topics and subscriptions are made when they are used for the first time.
  bool topics_auto_create = true;
  // Lists and forecasts that may wait for the reader.
  size_t reads_max = 1'000;
  // What holds for topics that say nothing else; told to clients.
  uint64_t fate_retention_ms = 86'400'000;
  uint64_t request_retention_ms = 3'600'000;
  size_t streams_max = 10'000;
  uint64_t heartbeat_ms = 15'000;
  // How long a drain waits for settlements; told to subscribers.
  uint64_t drain_grace_ms = 5'000;
  // Reported by ServerInfo.
  std::string version;
};

// The options that `config` asks for.
GrpcServerOptions OptionsFromConfig(const config::Config& config);

}  // namespace duetime::rpc
