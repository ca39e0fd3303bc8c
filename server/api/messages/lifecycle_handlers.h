// SPDX-License-Identifier: Apache-2.0
//
// Handlers of the calls about accepted messages. A request names messages by id or by key, and the
// handler asks the shards that hold them.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/messages.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

CallTask Cancel(ApiWorker& worker, rpc::Call& call);
CallTask CancelBatch(ApiWorker& worker, rpc::Call& call);
CallTask Reschedule(ApiWorker& worker, rpc::Call& call);
Co<absl::Status> Get(ApiWorker& worker, rpc::Call& call, const v1::GetRequest& request,
                     v1::GetResponse* response);
Co<absl::Status> Explain(ApiWorker& worker, rpc::Call& call, const v1::ExplainRequest& request,
                         v1::ExplainResponse* response);

}  // namespace duetime::api
