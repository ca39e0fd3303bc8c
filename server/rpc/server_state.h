// SPDX-License-Identifier: Apache-2.0
//
// ServerState: the state that all threads of the gRPC shell share.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/open_streams.h"

namespace duetime::rpc {

// The phase of the server's life. It only moves to a higher value. kStandby: another member of the
// cell serves.
enum class ServingState : uint8_t { kStarting, kStandby, kServing, kDraining, kStorageFailed };

// Thread-safe.
struct ServerState {
  ServerState(base::Clock* server_clock, metrics::RpcStats* rpc_stats)
      : clock(server_clock), machine_clock(server_clock->machine()), stats(rpc_stats) {}
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

  // Where clients reach the member that leads the cell; empty if there is none.
  void SetLeader(const std::string& address) {
    base::MutexLock lock(&leader_mutex_);
    leader_ = address;
  }
  std::string leader() const {
    base::MutexLock lock(&leader_mutex_);
    return leader_;
  }

  base::Clock* const clock;
  // For connections, calls and rights, which a test clock does not move.
  base::Clock* const machine_clock;
  metrics::RpcStats* const stats;
  std::atomic<ServingState> state{ServingState::kStarting};
  // GrpcServerOptions::slow_request_ms. Constant once a worker exists.
  uint64_t slow_request_ms = 0;
  // True once shutdown has begun: streams end, and the workers take no new calls.
  std::atomic<bool> ending{false};
  // Open Subscribe streams and waiting Pulls, open ScheduleStreams, and open CallStreams. See
  // StreamCount.
  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> schedule_streams{0};
  std::atomic<uint64_t> call_streams{0};
  // The Subscribe streams that have sent their first request.
  OpenStreams open_streams;

 private:
  mutable base::Mutex leader_mutex_;
  std::string leader_ ABSL_GUARDED_BY(leader_mutex_);
};

}  // namespace duetime::rpc
