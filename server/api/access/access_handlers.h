// SPDX-License-Identifier: Apache-2.0
//
// Handler of Admin.CheckAccess.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/call.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> CheckAccess(ApiWorker& worker, rpc::Call& call,
                             const v1::CheckAccessRequest& request,
                             v1::CheckAccessResponse* response);

}  // namespace duetime::api
