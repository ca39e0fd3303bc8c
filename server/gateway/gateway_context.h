// SPDX-License-Identifier: Apache-2.0
//
// GatewayContext: what all threads of a gateway share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/api/request_limits.h"
#include "server/gateway/cell_map.h"
#include "server/gateway/gateway_options.h"
#include "server/rpc/server_state.h"

namespace duetime::gateway {

// Thread-safe. The plain fields are constant once the server listens.
struct GatewayContext : rpc::ServerState {
  GatewayContext(base::Clock* server_clock, metrics::RpcStats* rpc_stats, CellMap cells,
                 GatewayOptions gateway_options)
      : rpc::ServerState(server_clock, rpc_stats),
        map(std::move(cells)),
        options(std::move(gateway_options)),
        complete(map.size()),
        away_since_ms(map.size()) {}

  // OK, or why no call is begun now: STARTING, DRAINING.
  absl::Status Admit(bool begins_work) const;

  // UNAVAILABLE CELL_UNAVAILABLE until the cell has all topics and subscriptions of the others: a
  // message that falls due earlier would miss some of them.
  absl::Status AdmitSchedule(size_t cell) const;

  // What a cell's error is for a client: with the cell's name and with ids as the client knows
  // them. Without an answer of the cell: UNAVAILABLE CELL_UNAVAILABLE. `reads`: the call changes
  // nothing.
  absl::Status ErrorOf(size_t cell, const grpc::Status& status, bool reads) const;

  // Notes which cells can be reached. To be called often, by one thread.
  void LookAtChannels();
  // How long a call that only reads may wait for a connection to the cell: for as long as a change
  // of its leader takes, but not for a cell that is away. 0: the cell has been away for longer.
  uint64_t ReadWaitMs(size_t cell) const;

  const CellMap map;
  const GatewayOptions options;
  // By cell, for all calls but those that stay open for long.
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  // Opens a further one. Thread-safe.
  std::function<std::shared_ptr<grpc::Channel>(size_t cell)> open_channel;
  // By cell: see AdmitSchedule. Never false again.
  std::vector<std::atomic<bool>> complete;
  // By cell: since when it cannot be reached, on the steady clock. 0: it can.
  std::vector<std::atomic<uint64_t>> away_since_ms;
  // The gateway's own token for calls that no client makes; empty: none.
  std::string token;
  // The cells are reached by TLS or on this machine, so that nobody on the way reads a token.
  bool passes_tokens = false;
  // Makes every worker look at the serving state.
  std::function<void()> wake_all;
  std::string version;
  base::Now started;
  api::RequestLimits limits;
  uint64_t heartbeat_ms = 15'000;
  uint64_t drain_grace_ms = 5'000;
  size_t streams_max = 10'000;
  // See GatewayOptions::gateway_open_bytes_max.
  std::atomic<uint64_t> open_bytes{0};
};

// UNAVAILABLE CELL_UNAVAILABLE. `reads`: the call changes nothing.
absl::Status CellUnavailableError(const std::string& cells, bool reads);

// What a call takes beside the bytes of its request.
inline constexpr uint64_t kCallBytes = 4'096;

// Counts bytes of requests while it lives.
class OpenBytes {
 public:
  OpenBytes(GatewayContext* context, uint64_t bytes) : context_(context), bytes_(bytes) {
    over_ = context->open_bytes.fetch_add(bytes) + bytes > context->options.gateway_open_bytes_max;
  }
  ~OpenBytes() { context_->open_bytes.fetch_sub(bytes_); }
  OpenBytes(const OpenBytes&) = delete;
  OpenBytes& operator=(const OpenBytes&) = delete;

  // OVERLOADED without room.
  absl::Status status() const;

 private:
  GatewayContext* const context_;
  const uint64_t bytes_;
  bool over_ = false;
};

}  // namespace duetime::gateway
