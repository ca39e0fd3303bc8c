// SPDX-License-Identifier: Apache-2.0
//
// Handlers of Pull and Settle: delivery without a stream. Pull sends one command to every shard,
// Settle one to each shard that holds a lease of the request.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> Pull(ApiWorker& worker, rpc::Call& call, const v1::PullRequest& request,
                      v1::PullResponse* response);
CallTask Settle(ApiWorker& worker, rpc::Call& call);

}  // namespace duetime::api
