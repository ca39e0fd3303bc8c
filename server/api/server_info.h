// SPDX-License-Identifier: Apache-2.0
//
// Handler of Admin.ServerInfo.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"
#include "server/rpc/unary_call.h"

namespace duetime::api {

Co<absl::Status> ServerInfo(ApiWorker& worker, rpc::UnaryCall& call,
                            const v1::ServerInfoRequest& request, v1::ServerInfoResponse* response);

}  // namespace duetime::api
