// SPDX-License-Identifier: Apache-2.0
//
// Handlers for the streams of the gateway's own clients: Admin.ListStreams, Admin.EndStream. A cell
// decides which of them the client may see and end.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/subscription.pb.h"
#include "server/gateway/cell_call.h"
#include "server/gateway/gateway_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::gateway {

using rpc::Co;

Co<absl::Status> ListStreams(GatewayWorker& worker, const Passed& passed,
                             v1::ListStreamsRequest& request, v1::ListStreamsResponse* response);
Co<absl::Status> EndStream(GatewayWorker& worker, const Passed& passed,
                           v1::EndStreamRequest& request, v1::EndStreamResponse* response);

}  // namespace duetime::gateway
