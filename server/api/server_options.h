// SPDX-License-Identifier: Apache-2.0
//
// ServerOptions: the knobs of the API and of the gRPC shell below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/api/request_limits.h"
#include "server/rpc/grpc_server_options.h"

namespace duetime::api {

struct ServerOptions : rpc::GrpcServerOptions {
  RequestLimits limits;
  // The number of lists and forecasts that may wait for the reader.
  size_t reads_max = 1'000;
  size_t streams_max = 10'000;
  // The bytes of deliveries that may wait for one stream to send them, see protocol::StreamCredit.
  uint64_t stream_unsent_bytes_max = 1 << 20;
  // The bytes of answers that are read and not given to gRPC yet, see protocol::AnswerBudget.
  uint64_t open_answers_bytes_max = 64 << 20;
  uint64_t heartbeat_ms = 15'000;
  // How long a drain waits for settlements; reported to subscribers.
  uint64_t drain_grace_ms = 5'000;
  // Reported by ServerInfo; not a knob.
  std::string version;
};

}  // namespace duetime::api
