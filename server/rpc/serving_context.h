// SPDX-License-Identifier: Apache-2.0
//
// ServingContext: what all calls of a server share.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/grpc_server_options.h"
#include "server/rpc/topic_registry.h"
#include "server/runtime/node.h"
#include "server/runtime/reader.h"
#include "storage/message_store.h"

namespace duetime::rpc {

// Where the server is in its life. Only ever moves to a higher value.
enum class ServingState : uint8_t { kStarting, kServing, kDraining, kStorageFailed };

// A tag whose answers are for nobody. The numbers with bit 55 set are those of streams' frames,
// which begin with 1.
inline constexpr delivery::CallTag kNobody{uint64_t{1} << 55};

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
        topics(options.topics_max, options.topics_auto_create) {}

  // OK, or why a call of this kind is refused now: STARTING, DRAINING, STORAGE_FAILED, DISK_LOW.
  absl::Status Admit(CallKind kind) const;

  // REQUIRES: node is not null.
  bool DiskLow() const { return disk_low != nullptr && disk_low(); }

  // Removes what is stored of a topic that was deleted and is used again, unless something else is
  // being stored of it. Nobody waits for it: while the topic has messages it counts as being there
  // anyway.
  void ForgetTopicObject(absl::string_view topic);

  // Tells every shard what it needs to know of a topic's settings. Returns how many will answer,
  // under `tag`.
  size_t TellShards(const TopicRegistry::Topic& topic, delivery::CallTag tag);

  // Moves to `next` unless the server is already there or further. Returns whether it moved.
  bool Advance(ServingState next);

  const GrpcServerOptions options;
  base::Clock* const clock;
  metrics::RpcStats* const stats;
  TopicRegistry topics;
  // Null until Serve; those after it are set before it.
  std::atomic<runtime::Node*> node{nullptr};
  storage::MessageStore* store = nullptr;
  runtime::Reader* reader = nullptr;
  uint64_t epoch = 0;
  std::function<bool()> disk_low;
  base::Now started;

  std::atomic<ServingState> state{ServingState::kStarting};
  // Shutdown has begun: streams end, nothing new is taken.
  std::atomic<bool> ending{false};
  // Open Subscribe streams, and open ScheduleStreams.
  std::atomic<uint64_t> streams{0};
  std::atomic<uint64_t> schedule_streams{0};
};

// RESOURCE_EXHAUSTED STREAM_LIMIT.
absl::Status StreamLimitError(size_t limit);

}  // namespace duetime::rpc
