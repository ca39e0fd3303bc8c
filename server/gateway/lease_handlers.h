// SPDX-License-Identifier: Apache-2.0
//
// The gateway's handlers of Pull and Settle.
#pragma once

#include "duetime/v1/messages.pb.h"
#include "server/gateway/ask.h"
#include "server/rpc/call.h"

namespace duetime::gateway {

// Settlements by cell. A token of no cell is refused with LEASE_LOST.
template <typename Request>
struct SplitSettles {
  // By cell. Empty if there is nothing for it.
  std::vector<Request> parts;
  std::vector<std::string> lost;
};
// Takes the settlements out of the request: SettleRequest or SubscribeRequest.
template <typename Request>
SplitSettles<Request> Split(const CellMap& map, Request* request);

// Adds a release of this lease to a SettleRequest or SubscribeRequest.
template <typename Request>
void AddRelease(std::string token, Request* request);

// Asks all cells, in short slices until one of them has messages. No call is cancelled, because its
// messages would be lost until their leases end. Messages beyond the limits are given back.
rpc::CallTask Pull(GatewayWorker& worker, rpc::Call& call);
rpc::CallTask Settle(GatewayWorker& worker, rpc::Call& call);

}  // namespace duetime::gateway
