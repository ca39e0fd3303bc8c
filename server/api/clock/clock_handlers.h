// SPDX-License-Identifier: Apache-2.0
//
// The calls of the service TestClock. REQUIRES: ServingContext::clock_driver is set.
#pragma once

#include "absl/status/status.h"

#include "duetime/v1/test_clock.pb.h"
#include "server/api/api_worker.h"
#include "server/rpc/coroutine.h"

namespace duetime::api {

absl::Status GetClock(ApiWorker& worker, const v1::GetClockRequest& request,
                      v1::GetClockResponse* response);
absl::Status SetClock(ApiWorker& worker, const v1::SetClockRequest& request,
                      v1::SetClockResponse* response);
Co<absl::Status> Advance(ApiWorker& worker, rpc::Call& call, const v1::AdvanceRequest& request,
                         v1::AdvanceResponse* response);
Co<absl::Status> AdvanceToNext(ApiWorker& worker, rpc::Call& call,
                               const v1::AdvanceToNextRequest& request,
                               v1::AdvanceToNextResponse* response);

}  // namespace duetime::api
