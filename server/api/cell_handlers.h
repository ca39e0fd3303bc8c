// SPDX-License-Identifier: Apache-2.0
//
// The cell in the answer of Admin.ServerInfo, and the handler of Admin.HandOver.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/call.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

// Does nothing without a cell.
void FillCell(const ServingContext& context, v1::ServerInfoResponse* response);

Co<absl::Status> HandOver(ApiWorker& worker, rpc::Call& call, const v1::HandOverRequest& request,
                          v1::HandOverResponse* response);

}  // namespace duetime::api
