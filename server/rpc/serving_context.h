// SPDX-License-Identifier: Apache-2.0
//
// ServingContext: what all calls of a server share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/grpc_server_options.h"
#include "server/rpc/topic_registry.h"
#include "server/runtime/node.h"

namespace duetime::rpc {

// Where the server is in its life. Only ever moves to a higher value.
enum class ServingState : uint8_t { kStarting, kServing, kDraining, kStorageFailed };

// What a call wants to do, for the question whether it may.
enum class CallKind : uint8_t {
  kSchedule,
  kSubscribe,
  // Cancel, Get: allowed while draining.
  kOther,
};

// Thread-safe. The plain fields are constant once the first call is served.
struct ServingContext {
  ServingContext(GrpcServerOptions server_options, base::Clock* server_clock,
                 metrics::RpcStats* rpc_stats)
      : options(std::move(server_options)),
        clock(server_clock),
        stats(rpc_stats),
        topics(options.topics_max) {}

  // OK, or why a call of this kind is refused now: STARTING, DRAINING, STORAGE_FAILED, DISK_LOW.
  absl::Status Admit(CallKind kind) const;

  // REQUIRES: node is not null.
  bool DiskLow() const { return disk_low != nullptr && disk_low(); }

  // Moves to `next` unless the server is already there or further. Returns whether it moved.
  bool Advance(ServingState next);

  const GrpcServerOptions options;
  base::Clock* const clock;
  metrics::RpcStats* const stats;
  TopicRegistry topics;
  // Null until Serve; the two after it are set before it.
  std::atomic<runtime::Node*> node{nullptr};
  uint64_t epoch = 0;
  std::function<bool()> disk_low;
  base::Now started;

  std::atomic<ServingState> state{ServingState::kStarting};
  // Shutdown has begun: streams end, nothing new is taken.
  std::atomic<bool> ending{false};
  // Open Subscribe streams.
  std::atomic<uint64_t> streams{0};
};

}  // namespace duetime::rpc
