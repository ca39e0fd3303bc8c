// SPDX-License-Identifier: Apache-2.0
//
// Handlers of Schedule and ScheduleBatch.
#pragma once

#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

CallTask Schedule(ApiWorker& worker, rpc::Call& call);
CallTask ScheduleBatch(ApiWorker& worker, rpc::Call& call);

}  // namespace duetime::api
