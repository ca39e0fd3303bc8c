// SPDX-License-Identifier: Apache-2.0
//
// ServerState: the state that all threads of the gRPC shell share.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::rpc {

// The phase of the server's life. It only moves to a higher value.
enum class ServingState : uint8_t { kStarting, kServing, kDraining, kStorageFailed };

// Thread-safe.
struct ServerState {
  ServerState(base::Clock* server_clock, metrics::RpcStats* rpc_stats)
      : clock(server_clock), stats(rpc_stats) {}
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  // Moves to `next` unless the server is already there or further. Returns whether it moved.
  bool Advance(ServingState next) {
    ServingState current = state.load();
    while (current < next) {
      if (state.compare_exchange_weak(current, next)) return true;
    }
    return false;
  }

  base::Clock* const clock;
  metrics::RpcStats* const stats;
  std::atomic<ServingState> state{ServingState::kStarting};
  // GrpcServerOptions::slow_request_ms. Constant once a worker exists.
  uint64_t slow_request_ms = 0;
  // True once shutdown has begun: streams end, and the workers take no new calls.
  std::atomic<bool> ending{false};
};

}  // namespace duetime::rpc
