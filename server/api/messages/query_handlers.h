// SPDX-License-Identifier: Apache-2.0
//
// Handlers of the calls that read much of the store. The reader's thread reads, so the engines do
// not wait. List then asks the shards for the states of the due messages.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/admin.pb.h"
#include "duetime/v1/messages.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

Co<absl::Status> List(ApiWorker& worker, rpc::Call& call, const v1::ListRequest& request,
                      v1::ListResponse* response);
Co<absl::Status> Forecast(ApiWorker& worker, rpc::Call& call, const v1::ForecastRequest& request,
                          v1::ForecastResponse* response);

}  // namespace duetime::api
